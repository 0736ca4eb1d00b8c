/** Serves models over REST and gRPC in this process. */
import { resolve } from 'node:path';
import type { TlsOptions } from 'node:tls';
import { firstLineOf, invalid, ShoalError } from '../../base/errors/errors.js';
import { defaultLog, type Log } from '../../base/text/log.js';
import { formatAddress } from '../../distributed/cluster/spec/address.js';
import { type Security, tokenSecurity } from '../../distributed/cluster/spec/security.js';
import { type BatchingConfig, readModelConfig, type SslConfig } from './config/config-files.js';
import type { ModelConfig, VersionPolicy } from './config/model-config.js';
import { modelSource } from './config/model-source.js';
import type { ModelServer } from './core/model-server.js';
import { type ModelServerSettings, openModelServer } from './core/open-model-server.js';
import { serveGrpc } from './grpc/serve-grpc.js';
import { acceptVersions } from './publish/accept-versions.js';
import type { VersionStatus } from './requests.js';
import { BODY_LIMITS } from './rest/body.js';
import { RestServer } from './rest/listen.js';

export interface ServedModelOptions {
  /** The directory whose subdirectories are the versions. */
  readonly basePath: string;
  /** Which versions serve; default: the latest. */
  readonly policy?: VersionPolicy;
  /** Version numbers by label; default: none. */
  readonly labels?: Readonly<Record<string, number>>;
}

export interface ServeOptions
  extends Omit<ModelServerSettings, 'models' | 'log' | 'pollMs' | 'drainMs' | 'batching'> {
  /** The models by name, each with its directory; or one directory, whose name is the model's. */
  readonly models?: string | Readonly<Record<string, string | ServedModelOptions>>;
  /** A file with the models in TensorFlow Serving's format, instead of `models`. */
  readonly modelConfigFile?: string;
  /** How often that file is read again; default: never. */
  readonly modelConfigPollSecs?: number;
  /** The address to listen on; default: 127.0.0.1. */
  readonly host?: string;
  /** The port of the REST API; 0: any free port, false: none. Default: 8501. */
  readonly restPort?: number | false;
  /** The port of gRPC; 0: any free port, false: none. Default: 8500. */
  readonly grpcPort?: number | false;
  /** How often the directories are searched for versions; 0: once. Default: 1. */
  readonly pollSecs?: number;
  /** How long a REST request may take; default: 30. */
  readonly timeoutSecs?: number;
  /** The largest body of a REST request; default: 128 MiB. */
  readonly maxBodyBytes?: number;
  /** How long the body of a request may take to arrive; default: 30. */
  readonly bodyTimeoutSecs?: number;
  /** Connections to each port; default: 8192. */
  readonly maxConnections?: number;
  /** The token that requests must carry; default: none is needed. */
  readonly token?: string;
  /** The certificate of the gRPC port; default: no TLS. */
  readonly tls?: SslConfig;
  /** Whether the REST API uses that certificate too; default: false, as in TensorFlow Serving. */
  readonly restTls?: boolean;
  /** Adds the headers by which pages of other sites may send requests; default: false. */
  readonly cors?: boolean;
  /** A second path of the metrics beside /metrics; default: none. */
  readonly metricsPath?: string;
  /** Default: no batching. */
  readonly batching?: BatchingConfig;
  /** How long requests on an old version may still run; default: 60. */
  readonly drainSecs?: number;
  /** The port on which versions are accepted from publishers; 0: any free port, false: none. Default: none. */
  readonly publishPort?: number | false;
  /** The token of publishers; default: none. Without a token and certificates that port listens on 127.0.0.1. */
  readonly publishToken?: string;
  /** The directory of the certificates with which publishers are verified (`shoal certs`); default: none. */
  readonly publishCerts?: string;
  /** How many published versions stay on the disk; 0: all. Default: 3. */
  readonly publishKeep?: number;
  /** Receives messages for the operator; default: standard error. */
  readonly log?: Log;
}

export interface CloseOptions {
  /** How long running requests may take to end; default: 30. */
  readonly graceSecs?: number;
}

export interface Serving extends AsyncDisposable {
  /** Undefined if there is no REST API. */
  readonly restPort: number | undefined;
  /** Undefined if there is no gRPC. */
  readonly grpcPort: number | undefined;
  /** Undefined if no versions are accepted. */
  readonly publishPort: number | undefined;
  /** Whether every model has a version that serves. */
  readonly ready: boolean;
  /** The versions of each model. */
  status(): Readonly<Record<string, readonly VersionStatus[]>>;
  /** Stops taking requests, waits for those that run, and unloads the models. */
  close(options?: CloseOptions): Promise<void>;
}

const DEFAULTS = {
  host: '127.0.0.1',
  restPort: 8501,
  grpcPort: 8500,
  pollSecs: 1,
  timeoutSecs: 30,
  maxConnections: 8192,
} as const;
const CLOSE_SECS = 30;

/** Resolves when the versions that were found serve or have failed. */
export async function serve(options: ServeOptions): Promise<Serving> {
  const { host, restPort, grpcPort, pollSecs, timeoutSecs, maxConnections } = { ...DEFAULTS, ...options };
  const log = options.log ?? defaultLog();
  if (restPort === false && grpcPort === false) throw invalid('A server needs a REST or a gRPC port');
  const security: Security = options.token === undefined ? { kind: 'none' } : tokenSecurity(options.token);
  const models = await modelsOf(options);
  const { drainSecs, batching, ...settings } = options;
  const server = await openModelServer({
    ...settings,
    models,
    log,
    pollMs: pollSecs * 1000,
    ...(drainSecs === undefined ? {} : { drainMs: drainSecs * 1000 }),
    ...(batching ? { batching } : {}),
  });
  const state = { isClosing: false };
  const isReady = () => !state.isClosing && server.models.isReady;
  const tls = options.tls && tlsOf(options.tls);
  const faces: Face[] = [];
  try {
    if (restPort !== false) {
      const rest = await RestServer.listen({
        server,
        security,
        listen: { host, port: restPort },
        tls: options.restTls ? tls : undefined,
        maxConnections,
        body: {
          ...BODY_LIMITS,
          ...(options.maxBodyBytes === undefined ? {} : { maxBytes: options.maxBodyBytes }),
          ...(options.bodyTimeoutSecs === undefined ? {} : { timeoutMs: options.bodyTimeoutSecs * 1000 }),
        },
        timeoutMs: timeoutSecs * 1000,
        cors: options.cors ?? false,
        metricsPaths: ['/metrics', ...(options.metricsPath ? [options.metricsPath] : [])],
        isReady,
      });
      faces.push({ kind: 'REST', port: rest.address.port, close: (ms) => rest.close(ms) });
    }
    if (grpcPort !== false) {
      const { token } = options;
      const listen = { host, port: grpcPort };
      const grpc = await serveGrpc(server, {
        listen,
        tls,
        token,
        isReady,
        limits: { maxConnections },
      });
      faces.push({ kind: 'gRPC', port: grpc.address.port, close: (ms) => grpc.close(ms) });
    }
    if (options.publishPort !== undefined && options.publishPort !== false)
      faces.push(await acceptVersions(server.models, { ...options, port: options.publishPort, host, log }));
  } catch (error) {
    await Promise.all(faces.map((face) => face.close(0)));
    await server.close();
    throw error;
  }
  const stopReloading = options.modelConfigFile
    ? keepReloading(server, models, options.modelConfigFile, options.modelConfigPollSecs ?? 0, log)
    : () => {};
  announce(faces, host, options, log);
  return new RunningServer(server, faces, () => {
    state.isClosing = true;
    stopReloading();
  });
}

/** A protocol on a port. */
interface Face {
  readonly kind: 'REST' | 'gRPC' | 'publish';
  readonly port: number;
  close(graceMs: number): Promise<void>;
}

class RunningServer implements Serving {
  readonly #server: ModelServer;
  readonly #faces: readonly Face[];
  readonly #onClose: () => void;
  #isOpen = true;
  #closing: Promise<void> | undefined;

  constructor(server: ModelServer, faces: readonly Face[], onClose: () => void) {
    this.#server = server;
    this.#faces = faces;
    this.#onClose = onClose;
  }

  get restPort(): number | undefined {
    return this.#faces.find(({ kind }) => kind === 'REST')?.port;
  }

  get grpcPort(): number | undefined {
    return this.#faces.find(({ kind }) => kind === 'gRPC')?.port;
  }

  get publishPort(): number | undefined {
    return this.#faces.find(({ kind }) => kind === 'publish')?.port;
  }

  get ready(): boolean {
    return this.#isOpen && this.#server.models.isReady;
  }

  status(): Readonly<Record<string, readonly VersionStatus[]>> {
    const { models } = this.#server;
    return Object.fromEntries(models.names.map((name) => [name, models.model(name)?.statuses() ?? []]));
  }

  close({ graceSecs = CLOSE_SECS }: CloseOptions = {}): Promise<void> {
    this.#isOpen = false;
    this.#onClose();
    this.#closing ??= Promise.all(this.#faces.map((face) => face.close(graceSecs * 1000))).then(() =>
      this.#server.close(),
    );
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

async function modelsOf({ models, modelConfigFile }: ServeOptions): Promise<readonly ModelConfig[]> {
  if (modelConfigFile !== undefined) {
    if (models !== undefined) throw invalid('Pass models or modelConfigFile, not both');
    return readModelConfig(resolve(modelConfigFile));
  }
  if (models === undefined) throw invalid('A server needs models or modelConfigFile');
  if (typeof models === 'string') return [await modelSource(models)];
  return Promise.all(
    Object.entries(models).map(async ([name, model]) => {
      const { basePath, ...rest } = typeof model === 'string' ? { basePath: model } : model;
      return { ...(await modelSource(basePath)), ...rest, name };
    }),
  );
}

/** Reads the list of models again and again; one that cannot be read changes nothing. */
function keepReloading(
  server: ModelServer,
  loaded: readonly ModelConfig[],
  file: string,
  pollSecs: number,
  log: Log,
): () => void {
  if (pollSecs <= 0) return () => {};
  let last = JSON.stringify(loaded);
  let isBusy = false;
  const reload = async () => {
    const models = await readModelConfig(resolve(file));
    const text = JSON.stringify(models);
    if (text === last) return;
    last = text;
    await server.reloadConfig(models);
  };
  const poll = () => {
    if (isBusy) return;
    isBusy = true;
    reload()
      .catch((error: unknown) => log(`${file}: ${firstLineOf(error)}`, 'error'))
      .finally(() => {
        isBusy = false;
      });
  };
  poll();
  const timer = setInterval(poll, pollSecs * 1000);
  return () => clearInterval(timer);
}

function tlsOf({ key, cert, ca, verifiesClients }: SslConfig): TlsOptions {
  if (verifiesClients && ca === undefined)
    throw new ShoalError(
      'SHOAL_CONFIG',
      'client_verify needs custom_ca, the certificate that clients are verified with',
    );
  return {
    key,
    cert,
    ...(ca === undefined ? {} : { ca }),
    requestCert: verifiesClients,
    rejectUnauthorized: verifiesClients,
    minVersion: 'TLSv1.2',
    handshakeTimeout: 10_000,
  };
}

function announce(
  faces: readonly Face[],
  host: string,
  { tls, restTls, token }: ServeOptions,
  log: Log,
): void {
  for (const { kind, port } of faces) {
    if (kind === 'publish') continue;
    const isEncrypted = tls !== undefined && (kind === 'gRPC' || restTls === true);
    const where = formatAddress({ host, port });
    log(
      kind === 'REST'
        ? `REST API at http${isEncrypted ? 's' : ''}://${where}/v1/models, metrics at /metrics`
        : `gRPC at ${where}${isEncrypted ? ' with TLS' : ''}`,
    );
    if (token !== undefined && !isEncrypted && host !== '127.0.0.1')
      log(
        `The token of requests to the ${kind} port can be read on the network: the port has no TLS`,
        'warn',
      );
  }
}
