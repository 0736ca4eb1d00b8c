/** Requests that are large, deep or malformed on purpose: each is answered with an error, in time and in bounded memory. */
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Serving, serve } from '../serve.js';
import { writeHalfPlus, writeTypes } from '../testing/models.js';
import { MAX_VALUES } from './body.js';
import { debugText, numberOf, parseExactly, parseRequest } from './json-text.js';

let root: string;
let serving: Serving;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-rest-large-'));
  await writeHalfPlus(join(root, 'half'), 1, 2);
  await writeTypes(join(root, 'types'));
  serving = await serve({
    models: { half: join(root, 'half'), types: join(root, 'types') },
    restPort: 0,
    grpcPort: false,
    log: () => {},
  });
});
afterAll(async () => {
  await serving?.close();
  await rm(root, { recursive: true, force: true });
});

async function post(
  model: string,
  body: string,
): Promise<{ readonly status: number; readonly text: string }> {
  const response = await fetch(`http://127.0.0.1:${serving.restPort}/v1/models/${model}:predict`, {
    method: 'POST',
    body,
  });
  return { status: response.status, text: await response.text() };
}

test('strings of many megabytes, beside numbers that JSON has not', () => {
  const long = `\\"${'x'.repeat(12 << 20)} NaN 1 \\\\`;
  const special = parseRequest(`{"a": "${long}", "b": [NaN, "NaN", -Infinity]}`);
  const [first, second, third] = special.b as readonly unknown[];
  expect([numberOf(first), second, numberOf(third)]).toEqual([Number.NaN, 'NaN', Number.NEGATIVE_INFINITY]);
  expect(special.a).toBe(JSON.parse(`"${long}"`));
  const exact = parseExactly(`{"a": "${long}", "b": 1}`);
  expect([exact.a, numberOf(exact.b)]).toEqual([special.a, 1]);
});

test('a string without an end is refused in a time that grows with its length only', () => {
  const text = `{"a": NaN, "b": "${'\\"'.repeat(4 << 20)}`;
  expect(() => parseRequest(text)).toThrow(/^JSON Parse error/);
  expect(() => parseExactly(text)).toThrow(/^JSON Parse error/);
});

test('messages quote the beginning of a value, however large it is', () => {
  const rows = new Array<unknown>(1e6).fill([1]);
  expect(debugText({ rows, text: 'x' })).toBe(`{"rows":[${'[1],'.repeat(65)}`.slice(0, 256));
  expect(debugText(['x'.repeat(1000)])).toHaveLength(256);
  expect(debugText({ a: [], b: {}, c: null, d: true })).toBe('{"a":[],"b":{},"c":null,"d":true}');
});

test('a body of small values that would fill the memory is refused; one of many numbers is answered', async () => {
  const refused = await post('half', `{"instances": [${'[],'.repeat(MAX_VALUES)}[]]}`);
  expect(refused).toEqual({ status: 413, text: expect.stringContaining(`more than ${MAX_VALUES} values`) });
  const count = 1 << 20;
  const answered = await post('half', `{"instances": [${'1.5,'.repeat(count - 1)}1.5]}`);
  expect(answered.status).toBe(200);
  expect((JSON.parse(answered.text) as { predictions: readonly number[] }).predictions).toHaveLength(count);
  // Commas in strings are no values.
  const text = ','.repeat(MAX_VALUES + 1);
  const strings = await post('types', JSON.stringify({ signature_name: 'bytes', inputs: [text] }));
  expect(strings.status).toBe(200);
});

test('lists in lists in lists are refused', async () => {
  const depth = 1 << 20;
  const { status, text } = await post('half', `{"instances": ${'['.repeat(depth)}${']'.repeat(depth)}}`);
  expect({ status, text }).toEqual({ status: 400, text: expect.stringContaining('dimensions') });
});

test('one list too many is refused, be the outermost one the rows or not', async () => {
  const nested = (depth: number) => `${'['.repeat(depth)}1${']'.repeat(depth)}`;
  for (const key of ['instances', 'inputs']) {
    const { status, text } = await post('half', `{"${key}": ${nested(255)}}`);
    expect({ status, text }).toEqual({ status: 400, text: expect.stringContaining('254 dimensions') });
  }
});

test('lists whose first elements announce more than the text holds are refused before memory is taken', async () => {
  const ragged = (count: number, levels: number): string =>
    levels === 0 ? '0' : `[${ragged(count, levels - 1)}${',0'.repeat(count - 1)}]`;
  const before = process.memoryUsage().rss;
  for (const levels of [2, 3, 6])
    for (const key of ['instances', 'inputs']) {
      const { status, text } = await post('half', `{"${key}": ${ragged(20_000, levels)}}`);
      expect({ status, text }).toEqual({ status: 400, text: expect.stringMatching(/level|size/) });
    }
  expect(process.memoryUsage().rss - before).toBeLessThan(1 << 29);
});

test('an answer that its client does not read is given up', async () => {
  const impatient = await serve({
    models: { types: join(root, 'types') },
    restPort: 0,
    grpcPort: false,
    timeoutSecs: 3,
    bodyTimeoutSecs: 3,
    log: () => {},
  });
  try {
    const body = gzipSync(JSON.stringify({ signature_name: 'bytes', inputs: ['x'.repeat(24 << 20)] }));
    const socket = connect(impatient.restPort as number, '127.0.0.1');
    socket.write(
      'POST /v1/models/types:predict HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n' +
        `Content-Length: ${body.length}\r\n\r\n`,
    );
    socket.write(body);
    const first = await new Promise<Buffer>((resolve, reject) => {
      socket.once('data', resolve).once('error', reject);
    });
    socket.pause();
    const announced = Number(/content-length: (\d+)/i.exec(first.toString('latin1'))?.[1]);
    expect(announced).toBeGreaterThan(24 << 20);
    await new Promise((resume) => setTimeout(resume, 20_000));
    let received = first.length;
    await new Promise((closed) => {
      socket.on('data', (chunk: Buffer) => {
        received += chunk.length;
      });
      socket
        .on('error', () => {})
        .on('close', closed)
        .resume();
    });
    expect(received).toBeLessThan(announced);
  } finally {
    await impatient.close();
  }
}, 120_000);
