/** Declares `shoal serve`, with the flags of `tensorflow_model_server`. */
import type { LogLevel } from '../../../../base/text/log.js';
import { command } from '../../command.js';
import type { ShoalContext } from '../../context.js';
import { integer, LOG_LEVEL_FLAG, optionalText } from '../../flags.js';
import { IGNORED_FLAGS } from './ignored-flags.js';

export interface ServeFlags {
  readonly modelName?: string;
  readonly modelBasePath?: string;
  readonly modelConfigFile?: string;
  readonly modelConfigFilePollWaitSeconds: number;
  readonly port: number;
  readonly restApiPort: number;
  readonly host: string;
  readonly restApiTimeoutInMs: number;
  readonly restApiEnableCorsSupport: boolean;
  readonly restApiTls: boolean;
  readonly maxBodyBytes?: number;
  readonly maxQueued?: number;
  readonly enableBatching: boolean;
  readonly batchingParametersFile?: string;
  readonly monitoringConfigFile?: string;
  readonly fileSystemPollWaitSeconds: number;
  readonly sslConfigFile?: string;
  readonly tokenFile?: string;
  readonly useAltsCredentials: boolean;
  readonly savedModelTags: string;
  readonly enableModelWarmup: boolean;
  readonly numRequestIterationsForWarmup: number;
  readonly allowVersionLabelsForUnavailableModels: boolean;
  readonly enableSignatureMethodNameCheck: boolean;
  readonly tensorflowSessionParallelism: number;
  readonly tensorflowIntraOpParallelism: number;
  readonly tensorflowInterOpParallelism: number;
  readonly perProcessGpuMemoryFraction: number;
  readonly publishPort?: number;
  readonly publishTokenFile?: string;
  readonly publishCerts?: string;
  readonly publishKeep?: number;
  readonly graceSecs: number;
  readonly version: boolean;
  readonly logLevel?: LogLevel;
}

const seconds = (input: string): number => {
  const value = /^-?\d+(\.\d+)?$/.test(input) ? Number(input) : Number.NaN;
  if (Math.abs(value) <= 1e6) return value;
  throw new RangeError('expected a number of seconds');
};
const fraction = (input: string): number => {
  const value = Number(input);
  if (input !== '' && value >= 0 && value <= 1) return value;
  throw new RangeError('expected a number from 0 to 1');
};

const number = (brief: string, fallback: string, parse: (input: string) => number, placeholder = 'n') =>
  ({ kind: 'parsed', parse, default: fallback, brief, placeholder }) as const;
const port = (brief: string, fallback: string) => number(brief, fallback, integer(0, 65_535), 'port');
const toggle = (brief: string, fallback = false) => ({ kind: 'boolean', default: fallback, brief }) as const;

export const serveCommand = command<ServeFlags, [string?], ShoalContext>({
  loader: async () => (await import('./run.js')).runServe,
  parameters: {
    flags: {
      modelName: optionalText('The name of the model in requests; default: that of its directory', 'name'),
      modelBasePath: optionalText('The directory whose subdirectories are versions; the same as DIR', 'dir'),
      modelConfigFile: optionalText('A file with several models, their versions and labels', 'file'),
      modelConfigFilePollWaitSeconds: number(
        'How often that file is read again; 0: never',
        '0',
        seconds,
        'seconds',
      ),
      port: port('The port of gRPC; 0: none', '8500'),
      restApiPort: port('The port of the REST API; 0: none', '8501'),
      host: {
        kind: 'parsed',
        parse: String,
        default: '0.0.0.0',
        brief: 'The address to listen on',
        placeholder: 'address',
      },
      restApiTimeoutInMs: number('How long a REST request may take', '30000', integer(1, 1e9), 'ms'),
      restApiEnableCorsSupport: toggle('Let pages of other sites send requests'),
      restApiTls: toggle('Use the certificate of --ssl_config_file for the REST API too'),
      maxBodyBytes: {
        kind: 'parsed',
        parse: integer(1, 2 ** 29),
        optional: true,
        placeholder: 'bytes',
        brief: 'The largest body of a REST request; default: 134217728',
      },
      maxQueued: {
        kind: 'parsed',
        parse: integer(0, 1e6),
        optional: true,
        placeholder: 'n',
        brief: 'Requests that may wait for a run, without batching; default: 1000',
      },
      enableBatching: toggle('Let requests share runs'),
      batchingParametersFile: optionalText('A file with the sizes and timeouts of batches', 'file'),
      monitoringConfigFile: optionalText(
        'A file with the path of the metrics; they are at /metrics too',
        'file',
      ),
      fileSystemPollWaitSeconds: number(
        'How often versions are searched for; 0: once',
        '1',
        seconds,
        'seconds',
      ),
      sslConfigFile: optionalText('A file with the key and the certificate of the gRPC port', 'file'),
      tokenFile: optionalText('A file with the token of requests; default: SHOAL_SERVING_TOKEN', 'file'),
      useAltsCredentials: { ...toggle('Not supported'), hidden: true },
      savedModelTags: {
        kind: 'parsed',
        parse: String,
        default: 'serve',
        brief: 'The tags of the graphs to load',
        placeholder: 'list',
      },
      enableModelWarmup: toggle('Run the warm-up requests of a version before it serves', true),
      numRequestIterationsForWarmup: number('How often each of them is run', '1', integer(0, 1e6)),
      allowVersionLabelsForUnavailableModels: toggle('Accept labels of versions that do not serve yet'),
      enableSignatureMethodNameCheck: toggle('Classify and regress only with signatures made for that'),
      tensorflowSessionParallelism: number(
        'The threads of a session; 0: one per core',
        '0',
        integer(0, 4096),
      ),
      tensorflowIntraOpParallelism: number('The threads of an op; 0: one per core', '0', integer(0, 4096)),
      tensorflowInterOpParallelism: number('The ops at a time; 0: one per core', '0', integer(0, 4096)),
      perProcessGpuMemoryFraction: number('The part of the GPU memory to use', '0', fraction),
      publishPort: {
        kind: 'parsed',
        parse: integer(1, 65_535),
        optional: true,
        placeholder: 'port',
        brief: 'The port on which `shoal publish` and jobs send versions; default: none',
      },
      publishTokenFile: optionalText(
        'A file with the token of publishers; default: SHOAL_PUBLISH_TOKEN',
        'file',
      ),
      publishCerts: optionalText(
        'A directory with the certificate `serving`; publishers use TLS then',
        'dir',
      ),
      publishKeep: {
        kind: 'parsed',
        parse: integer(0, 1e6),
        optional: true,
        placeholder: 'n',
        brief: 'Published versions that stay on the disk; 0: all; default: 3',
      },
      graceSecs: number('How long running requests may take to end after SIGTERM', '30', seconds, 'seconds'),
      version: {
        kind: 'boolean',
        default: false,
        hidden: true,
        withNegated: false,
        brief: 'Print the version',
      },
      logLevel: LOG_LEVEL_FLAG,
      ...IGNORED_FLAGS,
    },
    positional: {
      kind: 'tuple',
      parameters: [
        {
          parse: String,
          placeholder: 'dir',
          optional: true,
          brief: 'The directory of a model: that of its versions, or one version',
        },
      ],
    },
  },
  docs: {
    brief: 'Serve SavedModels to clients of TensorFlow Serving',
    fullDescription:
      'Answers TensorFlow Serving’s REST and gRPC APIs. Its flags are those of tensorflow_model_server; the ones that\n' +
      'have no meaning here are ignored with a warning. A new version in the directory is loaded, warmed and swapped in\n' +
      'while requests run; one that is still being copied, or cannot be loaded, changes nothing.\n' +
      '\n' +
      'Health is at /healthz, readiness at /readyz, metrics are at /metrics. SIGTERM ends the readiness, lets running\n' +
      'requests end, and exits with 0.\n' +
      '\n' +
      'Examples:\n' +
      '  shoal serve export\n' +
      '  shoal serve --model_name=digits --model_base_path=/models/digits --port=8500 --rest_api_port=8501\n' +
      '  shoal serve --model_config_file=models.config --enable_batching\n' +
      '  shoal serve /models/digits --publish_port=8502 --publish_token_file=token',
  },
});
