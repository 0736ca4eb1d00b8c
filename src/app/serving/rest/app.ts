/** The routes of the REST API, and those for operators: health, readiness, metrics. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { HttpBindings } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { type Context, Hono } from 'hono';
import { type Security, sameSecret } from '../../../distributed/cluster/spec/security.js';
import type { ModelServer, ServableLease } from '../core/model-server.js';
import type { Api } from '../metrics/serving-metrics.js';
import type { ModelSpec, RequestLimits } from '../requests.js';
import { httpOf, invalidRequest, type Status, statusOf } from '../status.js';
import { Bodies, BodyError, type RequestBodyLimits } from './body.js';
import { examplesOf } from './examples-request.js';
import { classifyResponse, errorResponse, predictResponse, regressResponse } from './json-response.js';
import { hasLongIntegers, type JsonObject, parseExactly, parseRequest } from './json-text.js';
import { metadataResponse, statusResponse } from './metadata-response.js';
import { type Action, targetOf } from './paths.js';
import { type PredictInputs, predictInputs, signatureName } from './predict-request.js';

export interface AppOptions {
  readonly server: ModelServer;
  /** The token that requests need; default: none. TLS is the listener's. */
  readonly security: Security;
  readonly body: RequestBodyLimits;
  /** How long a request may take. */
  readonly timeoutMs: number;
  readonly cors: boolean;
  /** The paths of the metrics. */
  readonly metricsPaths: readonly string[];
  /** Whether requests may be sent: false while the server ends. */
  readonly isReady: () => boolean;
  /** Counts a request until its answer was sent. */
  readonly track: (response: ServerResponse) => void;
}

type Env = { Bindings: HttpBindings };

const JSON_TYPE = { 'content-type': 'application/json' } as const;
const TEXT_TYPE = { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' } as const;
const CORS = {
  'access-control-allow-origin': '*',
  'access-control-allow-methods': 'POST, GET',
  'access-control-allow-headers': 'Content-Type',
} as const;

const APIS: Readonly<Record<Action, Api>> = {
  predict: 'Predict',
  classify: 'Classify',
  regress: 'Regress',
  metadata: 'GetModelMetadata',
  status: 'GetModelStatus',
};

export function restApp(options: AppOptions): Hono<Env> {
  const { server, isReady, metricsPaths } = options;
  const bodies = new Bodies(options.body);
  const app = new Hono<Env>();
  app.get('/healthz', (c) => c.text('ok\n'));
  app.get('/readyz', (c) => (isReady() ? c.text('ok\n') : c.text('not ready\n', 503)));
  for (const path of new Set(metricsPaths)) {
    app.get(path, (c) =>
      isAllowed(options, c.env.incoming) ? c.body(server.metrics.text(), 200, TEXT_TYPE) : refused(c),
    );
  }
  app.all('/v1/*', async (c) => {
    const { incoming, outgoing } = c.env;
    options.track(outgoing);
    const headers = options.cors ? { ...JSON_TYPE, ...CORS } : JSON_TYPE;
    if (options.cors && c.req.method === 'OPTIONS') return c.body(null, 200, headers);
    if (!isAllowed(options, incoming)) return refused(c);
    const started = performance.now();
    let api: Api = 'GetModelStatus';
    let model = '';
    try {
      const { action, spec } = targetOf(c.req.method, pathOf(incoming));
      api = APIS[action];
      model = spec.name;
      using call = callOf(outgoing, started + options.timeoutMs);
      const text = await answer(server, bodies, action, spec, incoming, call.options);
      server.recordRequest(model, api, 'REST', 'OK', started);
      return send(outgoing, 200, headers, text);
    } catch (error) {
      const { status, message } = statusOf(error);
      server.recordRequest(model, api, 'REST', status, started);
      return send(outgoing, ...failure(error, status, headers), errorResponse(message));
    }
  });
  app.notFound((c) =>
    c.body(errorResponse(`Not found: ${c.req.method} ${c.req.path}`), 404, { ...JSON_TYPE }),
  );
  return app;
}

/** Sends an answer. As a Response it would become a stream first, which costs more than the run of a small model. */
function send(
  outgoing: ServerResponse,
  code: number,
  headers: Readonly<Record<string, string>>,
  text: string,
): Response {
  outgoing.writeHead(code, { ...headers, 'content-length': Buffer.byteLength(text) });
  outgoing.end(text);
  return RESPONSE_ALREADY_SENT;
}

type Failure = [code: number, headers: Record<string, string>];

function failure(error: unknown, status: Status, headers: Readonly<Record<string, string>>): Failure {
  const code = error instanceof BodyError ? error.http : httpOf(status);
  return [
    code,
    {
      ...headers,
      ...((code === 429 || code === 503) && { 'retry-after': '1' }),
      // What is left of the body is not read.
      ...(error instanceof BodyError && { connection: 'close' }),
    },
  ];
}

async function answer(
  server: ModelServer,
  bodies: Bodies,
  action: Action,
  spec: ModelSpec,
  incoming: IncomingMessage,
  call: RequestLimits,
): Promise<string> {
  switch (action) {
    case 'status':
      return statusResponse(server.status(spec));
    case 'metadata':
      return metadataResponse(server.metadata(spec));
    case 'predict':
      return bodies.read(incoming, (text) => predict(server, spec, text, call));
    default:
      return bodies.read(incoming, async (text) => {
        const request = parseExactly(text);
        const full = { ...spec, signatureName: signatureName(request) };
        const examples = { spec: full, examples: examplesOf(request) };
        return action === 'classify'
          ? classifyResponse(await server.classify(examples, call))
          : regressResponse(await server.regress(examples, call));
      });
  }
}

async function predict(
  server: ModelServer,
  spec: ModelSpec,
  text: string,
  call: RequestLimits,
): Promise<string> {
  using decoded = decode(server, spec, text);
  const { format, inputs } = decoded.inputs;
  const { outputs } = await server.predictWith(decoded.lease, inputs, undefined, call);
  return predictResponse(format, outputs);
}

interface Decoded extends Disposable {
  readonly lease: ServableLease;
  readonly inputs: PredictInputs;
}

/** The tensors of a request. Its JSON values are not kept while it waits and runs. */
function decode(server: ModelServer, spec: ModelSpec, text: string): Decoded {
  let request: JsonObject = parseRequest(text);
  const full = { ...spec, signatureName: signatureName(request) };
  const lease = server.lease(full, (name) =>
    invalidRequest(`Serving signature name: "${name}" not found in signature def`),
  );
  try {
    const hasInt64 = lease.plan.inputs.some(({ dtype }) => dtype === 'int64' || dtype === 'uint64');
    if (hasInt64 && hasLongIntegers(text)) request = parseExactly(text);
    const inputs = predictInputs(request, lease.plan);
    return { lease, inputs, [Symbol.dispose]: () => lease[Symbol.dispose]() };
  } catch (error) {
    lease[Symbol.dispose]();
    throw error;
  }
}

const pathOf = ({ url = '' }: IncomingMessage): string => url.split('?', 1)[0] as string;

interface Call extends Disposable {
  readonly options: RequestLimits;
}

/** Cancels the request when the client closes the connection. */
function callOf(outgoing: ServerResponse, deadline: number): Call {
  const gone = new AbortController();
  const onClose = () => gone.abort(new Error('The client closed the connection'));
  outgoing.once('close', onClose);
  return {
    options: { signal: gone.signal, deadline },
    [Symbol.dispose]: () => void outgoing.removeListener('close', onClose),
  };
}

function isAllowed({ security }: AppOptions, { headers }: IncomingMessage): boolean {
  return security.kind !== 'token' || sameSecret(headers.authorization ?? '', `Bearer ${security.token}`);
}

const refused = (c: Context<Env>): Response =>
  c.body(errorResponse('The request has no valid token'), 401, {
    ...JSON_TYPE,
    'www-authenticate': 'Bearer',
    connection: 'close',
  });
