/** The REST API as TensorFlow Serving documents it: its examples, its errors and their words. */

import { mkdtemp, rm } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Serving, serve } from '../serve.js';
import { writeHalfPlus, writeTypes } from '../testing/models.js';

let root: string;
let serving: Serving;
let base: string;
const lines: string[] = [];

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-rest-'));
  await writeHalfPlus(join(root, 'half'), 1, 2);
  await writeHalfPlus(join(root, 'half'), 2, 3);
  await writeTypes(join(root, 'types'));
  serving = await serve({
    models: {
      half_plus_two: {
        basePath: join(root, 'half'),
        policy: { kind: 'specific', versions: [1] },
        labels: { stable: 1, gone: 9 },
      },
      half_plus_three: join(root, 'half'),
      types: join(root, 'types'),
    },
    restPort: 0,
    grpcPort: false,
    maxBodyBytes: 1 << 20,
    bodyTimeoutSecs: 1,
    metricsPath: '/monitoring/prometheus/metrics',
    log: (line) => lines.push(line),
  });
  base = `http://127.0.0.1:${serving.restPort}`;
});
afterAll(async () => {
  await serving?.close();
  await rm(root, { recursive: true, force: true });
});

async function get(path: string): Promise<{ status: number; body: unknown; text: string }> {
  const response = await fetch(`${base}${path}`);
  const text = await response.text();
  return { status: response.status, text, body: text.startsWith('{') ? JSON.parse(text) : text };
}

async function post(
  path: string,
  body: unknown,
): Promise<{ status: number; text: string; body: Record<string, unknown> }> {
  const response = await fetch(`${base}${path}`, {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await response.text();
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {}
  return { status: response.status, text, body: parsed as Record<string, unknown> };
}

const HALF = '/v1/models/half_plus_two';

describe('the documented examples', () => {
  test('predict in row format', async () => {
    expect(await post(`${HALF}:predict`, { instances: [1.0, 2.0, 5.0] })).toMatchObject({
      status: 200,
      body: { predictions: [2.5, 3.0, 4.5] },
      text: expect.stringContaining('[2.5, 3.0, 4.5]'),
    });
    expect(
      (await post('/v1/models/half_plus_three:predict', { instances: [[1.0], [2.0], [5.0]] })).body,
    ).toEqual({
      predictions: [[3.5], [4.0], [5.5]],
    });
  });

  test('predict in column format, with and without the name of the input, and with objects as rows', async () => {
    expect((await post(`${HALF}:predict`, { inputs: [[1], [2]] })).body).toEqual({ outputs: [[2.5], [3]] });
    expect((await post(`${HALF}:predict`, { inputs: { x: [[1], [2]] } })).body).toEqual({
      outputs: [[2.5], [3]],
    });
    expect((await post(`${HALF}:predict`, { instances: [{ x: [1] }, { x: [2] }] })).body).toEqual({
      predictions: [[2.5], [3]],
    });
  });

  test('regress and classify', async () => {
    const examples = [{ x: 1.0 }, { x: [2.0] }];
    const asText = '{"signature_name": "regress_x_to_y", "examples": [{"x": 1.0}, {"x": [2.0], "x2": 3.5}]}';
    expect((await post(`${HALF}:regress`, asText)).body).toEqual({ results: [2.5, 3] });
    const classify =
      '{"signature_name": "classify_x_to_y", "context": {"x": 2.0}, "examples": [{"x2": 1.0}, {"x": 4.0}]}';
    expect((await post(`${HALF}:classify`, classify)).body).toEqual({ results: [[['', 3]], [['', 4]]] });
    // Written by JSON.stringify 1.0 is the integer 1: a feature of another kind.
    expect(await post(`${HALF}:regress`, { signature_name: 'regress_x_to_y', examples })).toMatchObject({
      status: 400,
    });
  });

  test('the status of a model, of a version, and of a label', async () => {
    const available = { state: 'AVAILABLE', status: { error_code: 'OK', error_message: '' } };
    expect((await get(HALF)).body).toEqual({ model_version_status: [{ version: '1', ...available }] });
    expect((await get('/v1/models/half_plus_three/versions/2')).body).toEqual({
      model_version_status: [{ version: '2', ...available }],
    });
    expect((await get(`${HALF}/labels/stable`)).body).toEqual({
      model_version_status: [{ version: '1', ...available }],
    });
    expect(await get('/v1/models/half_plus_three/versions/7')).toMatchObject({
      status: 404,
      body: { error: 'Could not find version 7 of model half_plus_three' },
    });
    expect(await get('/v1/models/nobody')).toMatchObject({
      status: 404,
      body: { error: 'Could not find any versions of model nobody' },
    });
  });

  test('the metadata of a model', async () => {
    const shape = {
      dim: [
        { size: '-1', name: '' },
        { size: '2', name: '' },
      ],
      unknown_rank: false,
    };
    expect((await get('/v1/models/types/metadata')).body).toMatchObject({
      model_spec: { name: 'types', signature_name: '', version: '1' },
      metadata: {
        signature_def: {
          signature_def: {
            floats: {
              inputs: { numbers: { dtype: 'DT_FLOAT', tensor_shape: shape, name: 'numbers:0' } },
              method_name: 'tensorflow/serving/predict',
            },
          },
        },
      },
    });
  });

  test('a version by its number and by its label', async () => {
    expect((await post(`${HALF}/versions/1:predict`, { instances: [[1]] })).body).toEqual({
      predictions: [[2.5]],
    });
    expect((await post(`${HALF}/labels/stable:predict`, { instances: [[1]] })).body).toEqual({
      predictions: [[2.5]],
    });
  });
});

describe('values', () => {
  const row = { numbers: [1, 0.2], ids: 1, words: 'é', flags: true, small: -3, image_bytes: { b64: 'AP8=' } };

  test('several inputs and outputs of many types, in both formats', async () => {
    const rows = await post('/v1/models/types:predict', { instances: [row, { ...row, flags: false }] });
    expect(rows.body).toEqual({ predictions: [row, { ...row, flags: false }] });
    expect(rows.text).toContain('[1.0, 0.2]');
    const columns = Object.fromEntries(Object.entries(row).map(([name, value]) => [name, [value]]));
    expect((await post('/v1/models/types:predict', { inputs: columns })).body).toEqual({ outputs: columns });
  });

  test('NaN and infinities are tokens in both directions', async () => {
    const { text } = await post(
      '/v1/models/types:predict',
      '{"signature_name": "floats", "instances": [[NaN, Infinity], [-Infinity, 1]]}',
    );
    expect(text).toContain('[[NaN, Infinity], [-Infinity, 1.0]]');
  });

  test('integers of 64 bits keep all digits', async () => {
    const ids = '[9223372036854775807, -9223372036854775808, 9007199254740993]';
    const { text } = await post('/v1/models/types:predict', `{"signature_name": "ids", "inputs": ${ids}}`);
    expect(text).toContain(ids);
  });

  test('strings that look like special numbers are strings', async () => {
    const { text } = await post(
      '/v1/models/types:predict',
      '{"signature_name": "bytes", "instances": ["NaN", "-Infinity \\" 1.0", {"b64": "TmFO"}]}',
    );
    const encoded = ['NaN', '-Infinity " 1.0', 'NaN'].map((word) => ({
      b64: Buffer.from(word).toString('base64'),
    }));
    expect(JSON.parse(text)).toEqual({ predictions: encoded });
  });

  test('outputs without a row for each instance are an error in row format only', async () => {
    const request = { signature_name: 'total', instances: [[1, 2]] };
    expect(await post('/v1/models/types:predict', request)).toMatchObject({
      status: 400,
      body: { error: 'Tensor name: total has no shape information ' },
    });
    const { body } = await post('/v1/models/types:predict', { signature_name: 'total', inputs: [[1, 2]] });
    expect(body).toEqual({ outputs: 3 });
  });

  test('a compressed body', async () => {
    const response = await fetch(`${base}${HALF}:predict`, {
      method: 'POST',
      headers: { 'content-encoding': 'gzip' },
      body: gzipSync('{"instances": [[1]]}'),
    });
    expect(await response.json()).toEqual({ predictions: [[2.5]] });
  });
});

describe('errors', () => {
  const cases: [string, string, unknown, number, string | RegExp][] = [
    [
      'no model of that name',
      '/v1/models/nobody:predict',
      { instances: [1] },
      404,
      'Servable not found for request: Latest(nobody)',
    ],
    [
      'no version of that number',
      `${HALF}/versions/7:predict`,
      { instances: [1] },
      404,
      'Servable not found for request: Specific(half_plus_two, 7)',
    ],
    [
      'no label of that name',
      `${HALF}/labels/beta:predict`,
      { instances: [1] },
      400,
      'Unrecognized servable version label: beta',
    ],
    [
      'a label of a version that does not serve',
      `${HALF}/labels/gone:predict`,
      { instances: [1] },
      404,
      'Servable not found for request: Specific(half_plus_two, 9)',
    ],
    ['no such method', `${HALF}:guess`, {}, 400, 'Malformed request: POST /v1/models/half_plus_two:guess'],
    [
      'no signature of that name',
      `${HALF}:predict`,
      { signature_name: 'nope', instances: [1] },
      400,
      'Serving signature name: "nope" not found in signature def',
    ],
    [
      'no signature to regress with',
      `${HALF}:regress`,
      { signature_name: 'nope', examples: [{}] },
      400,
      'No signature was found with the name: nope',
    ],
    [
      'a signature for another method',
      `${HALF}:regress`,
      { examples: [{ x: 1.5 }] },
      400,
      /No regression inputs found in SignatureDef/,
    ],
    [
      'a name of a signature that is no string',
      `${HALF}:predict`,
      { signature_name: 3 },
      400,
      /'signature_name' key must be a string value/,
    ],
    ['an empty body', `${HALF}:predict`, '', 400, 'JSON Parse error: The document is empty'],
    [
      'malformed JSON',
      `${HALF}:predict`,
      '{"instances": [[1.0], }',
      400,
      /^JSON Parse error: Invalid value. at offset: \d+$/,
    ],
    ['JSON that is no object', `${HALF}:predict`, '[1]', 400, 'JSON Value: [1] Is not object'],
    ['neither instances nor inputs', `${HALF}:predict`, {}, 400, "Missing 'inputs' or 'instances' key"],
    [
      'both instances and inputs',
      `${HALF}:predict`,
      { inputs: [1], instances: [1] },
      400,
      /expecting only one of 'inputs' or 'instances' keys to exist/,
    ],
    ['no instances', `${HALF}:predict`, { instances: [] }, 400, /No values in 'instances' array/],
    [
      'instances that are no list',
      `${HALF}:predict`,
      { instances: 3 },
      400,
      /Expecting 'instances' to be an list\/array/,
    ],
    [
      'a value of another type',
      `${HALF}:predict`,
      { instances: [['a']] },
      400,
      `Failed to process element: 0 of 'instances' list. Error: INVALID_ARGUMENT: JSON Value: "a" Type: String is not of expected type: float`,
    ],
    [
      'rows of different sizes',
      `${HALF}:predict`,
      { instances: [[1], [1, 2]] },
      400,
      `Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: Expecting tensor size: 1 but got: 2`,
    ],
    [
      'a ragged row',
      `${HALF}:predict`,
      { inputs: [[1], [1, 2]] },
      400,
      'Encountered list at unexpected size: 2 at level: 1 expected size: 1',
    ],
    ['an unknown input', `${HALF}:predict`, { instances: [{ z: 1 }] }, 400, /does not have named input: z/],
    [
      'a missing input',
      '/v1/models/types:predict',
      { inputs: { ids: [1] } },
      400,
      "Missing named input: flags in 'inputs' object.",
    ],
    [
      'a list for several inputs',
      '/v1/models/types:predict',
      { instances: [1] },
      400,
      /instances is a plain list, but expecting list of objects/,
    ],
    [
      'a wrong shape',
      '/v1/models/types:predict',
      { signature_name: 'floats', inputs: [[1, 2, 3]] },
      400,
      'input numbers has shape [1,3], but the model expects [-1,2]',
    ],
    [
      'an integer out of range',
      '/v1/models/types:predict',
      '{"signature_name": "ids", "inputs": [9223372036854775808]}',
      400,
      /is not of expected type: int64/,
    ],
    [
      'a fraction for an integer',
      '/v1/models/types:predict',
      { signature_name: 'ids', inputs: [1.5] },
      400,
      'JSON Value: 1.5 Type: Number is not of expected type: int64',
    ],
    [
      'bad base64',
      '/v1/models/types:predict',
      { signature_name: 'bytes', inputs: [{ b64: '*' }] },
      400,
      'Unable to base64 decode',
    ],
    [
      'no examples',
      `${HALF}:classify`,
      { signature_name: 'classify_x_to_y' },
      400,
      /key 'examples' is expected and was not found/,
    ],
    [
      'an example that is no object',
      `${HALF}:classify`,
      { signature_name: 'classify_x_to_y', examples: [3] },
      400,
      'Example must be JSON object but got JSON Number',
    ],
    [
      'a feature of mixed types',
      `${HALF}:classify`,
      { signature_name: 'classify_x_to_y', examples: [{ x: [1.5, 'a'] }] },
      400,
      'Unexpected element type in feature: x expecting type: float',
    ],
    [
      'a version that is no number',
      `${HALF}/versions/99999999999999999999:predict`,
      {},
      400,
      /Failed to convert version/,
    ],
  ];
  test.each(cases)('%s', async (_what, path, body, status, message) => {
    const found = await post(path, body);
    expect({ status: found.status, error: found.body?.error }).toEqual({
      status,
      error: typeof message === 'string' ? message : expect.stringMatching(message),
    });
  });

  test('other paths', async () => {
    expect((await get('/v2/models')).status).toBe(404);
    expect(await get('/v1/models')).toMatchObject({
      status: 400,
      body: { error: 'Missing model name in request.' },
    });
  });
});

describe('clients in trouble', () => {
  test('a large body is refused with 413, announced or not', async () => {
    const body = `{"instances": [[${'1'.repeat(2 << 20)}]]}`;
    expect(await post(`${HALF}:predict`, body)).toMatchObject({
      status: 413,
      body: { error: 'The body of the request is larger than 1048576 bytes' },
    });
    const status = await new Promise((resolve, reject) => {
      const request = httpRequest(`${base}${HALF}:predict`, { method: 'POST' }, (response) =>
        resolve(response.statusCode),
      );
      request.on('error', reject);
      // Without its length: in chunks.
      for (let i = 0; i < 20; i++) request.write(' '.repeat(100_000));
    });
    expect(status).toBe(413);
  });

  test('a small body that is large when decompressed is refused', async () => {
    const response = await fetch(`${base}${HALF}:predict`, {
      method: 'POST',
      headers: { 'content-encoding': 'gzip' },
      body: gzipSync(' '.repeat(3 << 20)),
    });
    expect(response.status).toBe(413);
  });

  test('a body that does not arrive is answered with 408', async () => {
    const answer = await raw(
      `POST ${HALF}:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"inst`,
    );
    expect(answer).toMatch(/^HTTP\/1.1 408 /);
    expect(answer).toContain('did not arrive within 1000 ms');
  });

  test('many idle connections do not keep requests from being answered, and leave nothing behind', async () => {
    const port = serving.restPort as number;
    const sockets = await Promise.all(
      Array.from(
        { length: 500 },
        () =>
          new Promise<ReturnType<typeof connect>>((resolve, reject) => {
            const socket = connect(port, '127.0.0.1', () => resolve(socket));
            socket.on('error', reject);
          }),
      ),
    );
    for (const socket of sockets) socket.write(`POST ${HALF}:predict HTTP/1.1\r\nHost: localhost\r\n`);
    expect((await post(`${HALF}:predict`, { instances: [[1]] })).status).toBe(200);
    for (const socket of sockets) socket.destroy();
    expect((await post(`${HALF}:predict`, { instances: [[1]] })).status).toBe(200);
  });

  function raw(text: string): Promise<string> {
    return new Promise((resolve, reject) => {
      let answer = '';
      const socket = connect(serving.restPort as number, '127.0.0.1', () => socket.write(text));
      socket.on('data', (chunk) => {
        answer += chunk;
      });
      socket.on('close', () => resolve(answer));
      socket.on('error', reject);
    });
  }
});

test('health, readiness and metrics, at both paths', async () => {
  expect((await get('/healthz')).status).toBe(200);
  expect((await get('/readyz')).status).toBe(200);
  const { text } = await get('/metrics');
  expect(text).toContain(':tensorflow:serving:request_count{model_name="half_plus_two",status="OK"}');
  expect(text).toMatch(
    /:tensorflow:serving:request_latency_bucket\{model_name="half_plus_two",API="Predict",entrypoint="REST",le="10"\}/,
  );
  expect(text).toContain('shoal_serving_version_state{model_name="types",version="1",state="AVAILABLE"} 1');
  // Names that clients make up are one series.
  expect(text).not.toContain('nobody');
  expect((await get('/monitoring/prometheus/metrics')).text).toContain(':tensorflow:serving:request_count');
  expect(lines.join('\n')).toMatch(/types version 1 serves \(loaded in .* s from .*types\/1\)/);
});
