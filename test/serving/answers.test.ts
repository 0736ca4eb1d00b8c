/** Models of every kind that Python saves answer over REST and gRPC as they do in Python, alone and in batches. */
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Serving, serve } from '../../src/app/serving/index.js';
import { askPython } from '../python.js';

interface Case {
  readonly name: string;
  readonly dir: string;
  readonly signature: string;
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly outputs: Readonly<Record<string, readonly (number | string)[]>>;
}

const BATCHING = {
  maxBatchSize: 32,
  timeoutMs: 5,
  maxEnqueuedBatches: 100,
  threads: 2,
  allowedSizes: [],
  padsVariableLengths: false,
};

let root: string;
let cases: readonly Case[];
const servers: Serving[] = [];

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-answers-'));
  cases = await askPython<Case[]>(
    new URL('../../src/training/saved-model/testing/make-models.py', import.meta.url),
    {
      root,
    },
  );
  const models: Record<string, string> = {};
  for (const dir of new Set(cases.map((one) => one.dir))) {
    const base = join(root, 'served', basename(dir));
    await mkdir(base, { recursive: true });
    await rename(dir, join(base, '1'));
    models[basename(dir)] = base;
  }
  for (const batching of [undefined, BATCHING])
    servers.push(
      await serve({
        models,
        restPort: 0,
        grpcPort: 0,
        pollSecs: 0,
        ...(batching ? { batching } : {}),
        log: () => {},
      }),
    );
}, 300_000);
afterAll(async () => {
  await Promise.all(servers.map((server) => server.close()));
  await rm(root, { recursive: true, force: true });
});

async function predict(server: Serving, { name, signature, inputs }: Case): Promise<Record<string, unknown>> {
  const response = await fetch(`http://127.0.0.1:${server.restPort}/v1/models/${name}:predict`, {
    method: 'POST',
    body: JSON.stringify({ signature_name: signature, inputs }),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${name} ${signature}: ${response.status} ${text}`);
  return JSON.parse(text) as Record<string, unknown>;
}

/** One output is not named; a ragged one has its values and row splits. */
function valuesOf(body: Record<string, unknown>, key: string, count: number): readonly unknown[] {
  const { outputs } = body;
  const named = outputs as Record<string, unknown>;
  const own =
    count === 1 && !(typeof outputs === 'object' && !Array.isArray(outputs))
      ? outputs
      : (named[key] ?? named[`${key}/values`]);
  return [own].flat(9);
}

test('all answers agree to 1e-6, with many requests at a time', async () => {
  for (const server of servers) {
    expect(server.ready).toBe(true);
    const requests = cases.flatMap((one) => [one, one, one]);
    const bodies = await Promise.all(requests.map((one) => predict(server, one)));
    for (const [i, { name, signature, outputs }] of requests.entries()) {
      const keys = Object.keys(outputs);
      for (const key of keys) {
        const expected = outputs[key]!;
        const values = valuesOf(bodies[i]!, key, keys.length);
        expect(values.length, `${name} ${signature} ${key}`).toBe(expected.length);
        for (const [at, value] of values.entries()) {
          if (typeof value === 'number') expect(Math.abs(value - Number(expected[at]))).toBeLessThan(1e-6);
          else expect(value).toBe(expected[at]);
        }
      }
    }
  }
});

test('so do those that the stubs of TensorFlow Serving get over gRPC', async () => {
  const program = new URL('./grpc-answers.py', import.meta.url);
  for (const { grpcPort: port } of servers) {
    const found = await askPython<readonly (readonly [output: string, difference: number])[]>(program, {
      port,
      cases,
    });
    expect(found.length).toBeGreaterThanOrEqual(cases.length);
    for (const [output, difference] of found) expect(difference, output).toBeLessThan(1e-6);
  }
}, 180_000);
