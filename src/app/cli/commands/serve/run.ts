/** `shoal serve`: turns the flags into options, serves until a signal, drains. */
import { readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { messageOf } from '../../../../base/errors/errors.js';
import { packageVersion } from '../../../../base/files/package.js';
import { leveled, logLevelOf } from '../../../../base/text/log.js';
import { stopSignals } from '../../../job/launcher/stop-signals.js';
import {
  readBatchingConfig,
  readMonitoringConfig,
  readSslConfig,
} from '../../../serving/config/config-files.js';
import type { ServeOptions } from '../../../serving/serve.js';
import type { ShoalContext } from '../../context.js';
import { UsageError } from '../../failure.js';
import type { ServeFlags } from './command.js';
import { ignoredOf } from './ignored-flags.js';

export async function runServe(this: ShoalContext, flags: ServeFlags, directory?: string): Promise<void> {
  if (flags.version) {
    this.process.stdout.write(`shoal ${packageVersion()}\n`);
    return;
  }
  const log = leveled(
    (line) => this.process.stdout.write(`${line}\n`),
    flags.logLevel ?? logLevelOf(process.env),
  );
  const signals = stopSignals(this.outputClosed);
  const { endProcess } = await import('../../job/end-process.js');
  signals.kill.addEventListener('abort', () => void endProcess(1));
  const ignored = ignoredOf(flags as unknown as Record<string, unknown>);
  if (ignored.length > 0)
    log(`These flags have no meaning here and are ignored: ${ignored.join(', ')}`, 'warn');
  const options = await optionsOf(flags, directory);
  const { serve } = await import('../../../serving/serve.js');
  const serving = await serve({ ...options, log });
  if (!signals.stop.aborted)
    await new Promise<void>((stopped) => {
      signals.stop.addEventListener('abort', () => stopped(), { once: true });
    });
  log('stopping: no further requests are taken, running ones end');
  await serving.close({ graceSecs: flags.graceSecs });
  await endProcess(0);
}

async function optionsOf(flags: ServeFlags, directory: string | undefined): Promise<ServeOptions> {
  if (flags.useAltsCredentials)
    throw new UsageError('SHOAL_UNSUPPORTED', '--use_alts_credentials is not supported', {
      hint: 'Use --ssl_config_file, with client_verify for clients with certificates.',
    });
  if (flags.port === 0 && flags.restApiPort === 0)
    throw new UsageError(
      'SHOAL_INVALID_ARGUMENT',
      'both --port and --rest_api_port are 0: nothing would be served',
    );
  const monitoring =
    flags.monitoringConfigFile === undefined
      ? undefined
      : await readMonitoringConfig(flags.monitoringConfigFile);
  const token = await tokenOf(flags.tokenFile, 'SHOAL_SERVING_TOKEN');
  return {
    ...modelsOf(flags, directory),
    ...(await publishingOf(flags)),
    modelConfigPollSecs: flags.modelConfigFilePollWaitSeconds,
    host: flags.host,
    grpcPort: flags.port === 0 ? false : flags.port,
    restPort: flags.restApiPort === 0 ? false : flags.restApiPort,
    pollSecs: flags.fileSystemPollWaitSeconds,
    timeoutSecs: flags.restApiTimeoutInMs / 1000,
    ...(flags.maxBodyBytes === undefined ? {} : { maxBodyBytes: flags.maxBodyBytes }),
    ...(flags.maxQueued === undefined ? {} : { maxQueued: flags.maxQueued }),
    tags: flags.savedModelTags.split(',').filter((tag) => tag !== ''),
    cors: flags.restApiEnableCorsSupport,
    restTls: flags.restApiTls,
    warmUps: flags.enableModelWarmup ? flags.numRequestIterationsForWarmup || 1 : 0,
    allowLabelsOfUnavailable: flags.allowVersionLabelsForUnavailableModels,
    checksMethodNames: flags.enableSignatureMethodNameCheck,
    session: sessionOf(flags),
    ...(monitoring === undefined ? {} : { metricsPath: monitoring }),
    ...(token === undefined ? {} : { token }),
    ...(flags.sslConfigFile === undefined ? {} : { tls: await readSslConfig(flags.sslConfigFile) }),
    ...(flags.enableBatching
      ? { batching: await readBatchingConfig(flags.batchingParametersFile, availableParallelism()) }
      : {}),
  };
}

/** As in TensorFlow Serving, a file of models takes precedence over one model. */
function modelsOf(
  { modelConfigFile, modelBasePath, modelName }: ServeFlags,
  directory: string | undefined,
): Pick<ServeOptions, 'models' | 'modelConfigFile'> {
  if (modelConfigFile !== undefined && directory === undefined) return { modelConfigFile };
  if (modelConfigFile !== undefined || (modelBasePath !== undefined && directory !== undefined))
    throw new UsageError(
      'SHOAL_INVALID_ARGUMENT',
      'pass either DIR, --model_base_path or --model_config_file',
    );
  const basePath = directory ?? modelBasePath;
  if (basePath === undefined)
    throw new UsageError('SHOAL_INVALID_ARGUMENT', 'no model is given', {
      hint: 'shoal serve DIR, with --model_name=NAME for another name, or --model_config_file=FILE for several models',
    });
  // The default of tensorflow_model_server, whose clients expect it.
  const name = modelName ?? (directory === undefined ? 'default' : undefined);
  return { models: name === undefined ? basePath : { [name]: basePath } };
}

async function publishingOf(flags: ServeFlags): Promise<Partial<ServeOptions>> {
  const { publishPort, publishCerts, publishKeep } = flags;
  if (publishPort === undefined) return {};
  const publishToken = await tokenOf(flags.publishTokenFile, 'SHOAL_PUBLISH_TOKEN');
  return {
    publishPort,
    ...(publishToken === undefined ? {} : { publishToken }),
    ...(publishCerts === undefined ? {} : { publishCerts }),
    ...(publishKeep === undefined ? {} : { publishKeep }),
  };
}

async function tokenOf(tokenFile: string | undefined, variable: string): Promise<string | undefined> {
  if (tokenFile === undefined) return process.env[variable] || undefined;
  try {
    return (await readFile(tokenFile, 'utf8')).trim();
  } catch (cause) {
    throw new UsageError('SHOAL_CONFIG', `the token file ${tokenFile} cannot be read: ${messageOf(cause)}`, {
      cause,
    });
  }
}

function sessionOf(flags: ServeFlags): NonNullable<ServeOptions['session']> {
  const threads = flags.tensorflowSessionParallelism;
  const fraction = flags.perProcessGpuMemoryFraction;
  return {
    intraOpParallelismThreads: flags.tensorflowIntraOpParallelism || threads,
    interOpParallelismThreads: flags.tensorflowInterOpParallelism || threads,
    ...(fraction > 0 ? { gpuOptions: { perProcessGpuMemoryFraction: fraction } } : {}),
  };
}
