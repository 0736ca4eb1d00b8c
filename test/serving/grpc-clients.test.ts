/** Real clients against the gRPC API: what they get is what TensorFlow computes, in the words of TensorFlow Serving. */
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openModelServer } from '../../src/app/serving/core/open-model-server.js';
import { serveGrpc } from '../../src/app/serving/grpc/serve-grpc.js';
import type { GrpcServer } from '../../src/app/serving/grpc/server.js';
import { initCerts, issueCert } from '../../src/distributed/cluster/spec/certs.js';
import { ONEDNN_VARIABLE, oneDnnSetting } from '../../src/tensorflow/native/library/onednn.js';

type Outcome = readonly [code: string, details: string];

interface Found {
  readonly values: Readonly<Record<string, number>>;
  readonly numbers: readonly string[];
  readonly specs: Readonly<Record<string, unknown>>;
  readonly inference: Readonly<Record<string, unknown>>;
  readonly errors: Readonly<Record<string, Outcome>>;
  readonly deadlines: { readonly late: Outcome; readonly seconds: number; readonly after: Outcome };
  readonly standard: Readonly<Record<string, unknown>>;
  readonly gzip: readonly number[];
  readonly large: Outcome;
  readonly secured: Readonly<Record<string, string>>;
  readonly management: Readonly<Record<string, unknown>>;
}

const TOKEN = 'a-token-of-the-test-0123456789';
const MAX_ROWS = 1000;
const MODELS = ['softmax', 'echo', 'strings', 'slow', 'half_plus'];

let found: Found;
let directory: string;
const closers: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'shoal-grpc-'));
  const program = fileURLToPath(new URL('./grpc-clients.py', import.meta.url));
  const child = spawn(process.env.SHOAL_ORACLE_PYTHON as string, [program, directory], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, TF_CPP_MIN_LOG_LEVEL: '3', [ONEDNN_VARIABLE]: oneDnnSetting() },
  });
  const errors: Buffer[] = [];
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk));
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  closers.push(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const nextLine = async (): Promise<string> => {
    const line = await lines.next();
    if (line.done) throw new Error(`the clients exited with ${await ended}:\n${Buffer.concat(errors)}`);
    return line.value;
  };
  expect(await nextLine()).toBe('ready');
  const server = await openModelServer({
    models: MODELS.map((name) => ({
      name,
      basePath: join(directory, name),
      policy: { kind: 'all' as const },
      ...(name === 'half_plus' && { labels: { stable: 1 } }),
    })),
    log: () => {},
  });
  closers.push(() => server.close());
  const open = async (options: Partial<Parameters<typeof serveGrpc>[1]>): Promise<GrpcServer> => {
    const listen = { host: '127.0.0.1', port: 0 };
    const opened = await serveGrpc(server, {
      listen,
      limits: { maxMessageBytes: MAX_ROWS * 784 * 4 + 1000 },
      ...options,
    });
    closers.push(() => opened.close());
    return opened;
  };
  const plain = await open({});
  const secured = await openSecured(open);
  child.stdin.write(`${JSON.stringify({ port: plain.address.port, maxRows: MAX_ROWS, secured })}\n`);
  found = JSON.parse(await nextLine()) as Found;
  expect(plain.bytesHeld).toBe(0);
}, 180_000);

afterAll(async () => {
  for (const close of closers.reverse()) await close();
  await rm(directory, { recursive: true, force: true });
});

/** A server with a certificate, which wants one of its clients too, and a token. */
async function openSecured(open: (options: Partial<Parameters<typeof serveGrpc>[1]>) => Promise<GrpcServer>) {
  const certs = join(directory, 'certs');
  const ca = await initCerts({ dir: certs });
  const { cert, key } = await issueCert({ dir: certs, bearer: 'operator' });
  const read = (path: string) => readFile(path, 'utf8');
  const tls = { ca: await read(ca.cert), cert: await read(cert), key: await read(key), requestCert: true };
  const server = await open({ tls, token: TOKEN });
  return { port: server.address.port, token: TOKEN, ca: ca.cert, cert, key, name: 'localhost' };
}

describe('predict', () => {
  test('answers what TensorFlow computes, for both forms of values and messages of megabytes', () => {
    for (const difference of Object.values(found.values)) expect(difference).toBeLessThan(1e-6);
    expect(Object.keys(found.values)).toHaveLength(7);
  });

  test('carries every numeric type in both forms', () => {
    expect(found.numbers).toEqual([]);
  });

  test('finds versions and labels, filters outputs, takes strings and sparse inputs', () => {
    const utf8 = (text: string) => Buffer.from(text).toString('hex');
    expect(found.specs).toEqual({
      filtered: ['classes'],
      versions: { latest: [4], one: [5], stable: [5] },
      sparse: [5, 13],
      upper: [utf8('ABC'), 'ff58', ''],
      length: [3, 2, 0],
    });
  });

  test('takes compressed messages', () => {
    expect(found.gzip).toEqual([3, 2, 0]);
  });

  test('refuses a message that is too large', () => {
    expect(found.large).toEqual(['RESOURCE_EXHAUSTED', expect.stringMatching(/larger than max/)]);
  });
});

test('classify, regress and multi-inference answer as TensorFlow Serving', () => {
  const { spec, classes, regressions, multi } = found.inference;
  expect(spec).toEqual(['half_plus', 2, 'classify']);
  expect(classes).toEqual([
    [
      ['plus', 3],
      ['minus', -3],
    ],
    [
      ['plus', 4],
      ['minus', -4],
    ],
  ]);
  expect(regressions).toEqual([13, 14]);
  expect(multi).toEqual([3, 3]);
});

test('errors have the codes and words of TensorFlow Serving', () => {
  const expected: Readonly<Record<string, readonly [string, RegExp]>> = {
    'no spec': ['INVALID_ARGUMENT', /^Missing ModelSpec$/],
    'no name': ['INVALID_ARGUMENT', /^ModelSpec has no name specified/],
    model: ['NOT_FOUND', /^Servable not found for request: Latest\(nothing\)$/],
    version: ['NOT_FOUND', /^Servable not found for request: Specific\(softmax, 7\)$/],
    label: ['INVALID_ARGUMENT', /^Unrecognized servable version label: canary$/],
    signature: ['FAILED_PRECONDITION', /^Serving signature key "nothing" not found/],
    input: ['INVALID_ARGUMENT', /^input tensor alias not found in signature: other/],
    'no input': ['INVALID_ARGUMENT', /^input size does not match signature: 0!=1/],
    output: ['INVALID_ARGUMENT', /^output tensor alias not found in signature: nothing/],
    dtype: ['INVALID_ARGUMENT', /to be float but double is provided/],
    shape: ['INVALID_ARGUMENT', /shape/],
    tensor: ['INVALID_ARGUMENT', /^tensor parsing error: images/],
    'no examples': ['INVALID_ARGUMENT', /^Input is empty\.?$/],
    method: ['INVALID_ARGUMENT', /^Expected one output Tensor/],
    'no metadata field': ['INVALID_ARGUMENT', /must specify at least one metadata_field/],
    'metadata field': ['INVALID_ARGUMENT', /^Metadata field weights is not supported$/],
    status: ['NOT_FOUND', /^Could not find any versions of model nothing$/],
    config: ['INVALID_ARGUMENT', /Only ModelConfigList is currently supported/],
    'unknown method': ['UNIMPLEMENTED', /Nothing/],
  };
  expect(Object.keys(found.errors).sort()).toEqual(Object.keys(expected).sort());
  for (const [name, [code, words]] of Object.entries(expected))
    expect([name, ...(found.errors[name] as Outcome)]).toEqual([name, code, expect.stringMatching(words)]);
});

test('deadlines and cancellations of clients end their runs', () => {
  const { late, seconds, after } = found.deadlines;
  expect(late[0]).toBe('DEADLINE_EXCEEDED');
  expect(after[0]).toBe('OK');
  expect(seconds).toBeLessThan(30);
});

test('the standard services describe the server and its health', () => {
  expect(found.standard).toEqual({
    check: ['SERVING', 'SERVING'],
    unknown: 'NOT_FOUND',
    watch: ['SERVING', 'SERVICE_UNKNOWN'],
    services: [
      'grpc.health.v1.Health',
      'grpc.reflection.v1.ServerReflection',
      'grpc.reflection.v1alpha.ServerReflection',
      'tensorflow.serving.ModelService',
      'tensorflow.serving.PredictionService',
    ],
    methods: ['Classify', 'GetModelMetadata', 'MultiInference', 'Predict', 'Regress'],
    fields: ['client_id', 'inputs', 'model_spec'],
  });
});

test('TLS with client certificates, and a token in the metadata', () => {
  expect(found.secured).toEqual({
    token: 'OK',
    'no token': 'UNAUTHENTICATED',
    'other token': 'UNAUTHENTICATED',
    health: 'OK',
    'no certificate': 'UNAVAILABLE',
  });
});

test('the management service lists versions and takes another list of models', () => {
  expect(found.management).toEqual({
    signatures: { serving_default: ['images'] },
    before: [
      [2, 'AVAILABLE'],
      [1, 'AVAILABLE'],
    ],
    after: expect.arrayContaining([[1, 'AVAILABLE']]),
    gone: 'NOT_FOUND',
  });
});
