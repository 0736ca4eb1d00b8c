/** Models of every kind that Python TensorFlow saves return the same results as in Python. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { described } from '../../../../test/described.js';
import { askPython } from '../../../../test/python.js';
import { liveHandles } from '../../../tensorflow/native/handle.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import {
  type InputValue,
  LoadedModel,
  loadSavedModel,
  type OutputValue,
  RaggedTensorValue,
} from '../index.js';
import { loadLargeModel } from './load-large-model.js';
import { chooseMetaGraph, readSavedModel } from './read-model.js';

interface Case {
  readonly name: string;
  readonly dir: string;
  readonly signature: string;
  readonly inputs: Record<string, InputValue>;
  readonly outputs: Record<string, (number | string)[]>;
}

let root: string;
let cases: Case[];
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-loader-'));
  cases = await askPython<Case[]>(new URL('../testing/make-models.py', import.meta.url), { root });
}, 300_000);
afterAll(() => rm(root, { recursive: true, force: true }));

const flat = (value: OutputValue | undefined): unknown[] => {
  const tensor = value instanceof RaggedTensorValue ? value.values : (value as Tensor);
  return ([tensor.toArray()].flat(9) as unknown[]).map((item) =>
    typeof item === 'bigint' ? Number(item) : item,
  );
};

async function check(model: LoadedModel, { signature, inputs, outputs }: Case): Promise<void> {
  const got = await model.signatures[signature]!(inputs);
  expect(Object.keys(got).sort()).toEqual(Object.keys(outputs).sort());
  for (const [key, expected] of Object.entries(outputs)) {
    const values = flat(got[key]);
    expect(values.length).toBe(expected.length);
    for (const [i, value] of values.entries()) {
      if (typeof value === 'number') expect(Math.abs(value - Number(expected[i]))).toBeLessThan(1e-6);
      else expect(value).toBe(expected[i]);
    }
  }
}

test('all models agree with Python to 1e-6, loaded together and called concurrently', async () => {
  expect([...new Set(cases.map(({ name }) => name))]).toEqual([
    'tf1',
    'tf1_resources',
    'tf2',
    'keras_sequential',
    'keras_functional',
    'keras_exported',
    'embedding',
  ]);
  const models = new Map<string, LoadedModel>();
  for (const { dir } of cases)
    if (!models.has(dir)) models.set(dir, await loadSavedModel(dir, { verify: true }));
  await Promise.all(
    cases.flatMap((one) => Array.from({ length: 5 }, () => check(models.get(one.dir)!, one))),
  );
  await Promise.all([...models.values()].map((model) => model.close()));
});

test.each([0, 1])(
  'a model of TensorFlow 1 agrees with Python if Shoal reads its variables, maxCached %d',
  async (maxCached) => {
    const one = find('tf1_resources');
    const meta = chooseMetaGraph((await readSavedModel(one.dir))!, ['serve'], one.dir);
    const session = await loadLargeModel(one.dir, meta, { timeoutMs: 60_000, minBytes: 0, maxCached });
    await using model = await LoadedModel.open(one.dir, ['serve'], session!, meta);
    await check(model, one);
  },
);

const find = (name: string, signature?: string): Case =>
  cases.find((one) => one.name === name && (signature === undefined || one.signature === signature))!;

test('errors name the invalid inputs', async () => {
  await using model = await loadSavedModel(find('tf2').dir);
  const power = model.signatures.power!;
  const x = [[1, 2, 3]];
  const fails = async (inputs: Record<string, InputValue>, text: RegExp) => {
    const failure = expect(power(inputs)).rejects;
    await failure.toThrow(described(text));
    await failure.toMatchObject({ code: 'SHOAL_INVALID_ARGUMENT' });
  };
  await fails({ x }, /needs the input 'n'.*takes/s);
  await fails({ x, n: 1, z: 2 }, /no input 'z'/);
  await fails({ x: [[1, 2]], n: 1 }, /input 'x' of signature 'power' must have shape \[\?, 3\].*\[1, 2\]/);
  await fails(
    { x: Tensor.of([[1, 2, 3]], { dtype: 'float64' }), n: 1 },
    /input 'x'.*must be float32.*float64/,
  );
  await fails({ x: [['a', 'b', 'c']], n: 1 }, /input 'x'.*"a"/);
  await fails({ x, n: 1.5 }, /input 'n'/);
  expect(() => model.signatures.nothing).toThrow(
    described(/no signature 'nothing'.*It has power, find|It has /s),
  );
  expect(power.inputs).toMatchObject({ x: { dtype: 'float32', shape: [null, 3], kind: 'dense' } });
  await using old = await loadSavedModel(find('tf1').dir);
  await expect(old.signatures.sparse!({ sparse: [1] })).rejects.toMatchObject({
    code: 'SHOAL_INVALID_ARGUMENT',
  });
});

test('a closed model ends its calls, and rejects new ones', async () => {
  const model = await loadSavedModel(find('tf2').dir);
  const one = find('tf2', 'power');
  const running = Array.from({ length: 10 }, () => check(model, one));
  await model.close();
  await Promise.all(running);
  expect(model.closed).toBe(true);
  await expect(model.signatures.power!(one.inputs)).rejects.toMatchObject({ code: 'SHOAL_DISPOSED' });
  await model.close();
});

test('memory stays flat and no handle is left after 200 loads and closes', async () => {
  const one = find('embedding');
  const once = async () => {
    await using model = await loadSavedModel(one.dir);
    await check(model, one);
  };
  for (let i = 0; i < 40; i++) await once();
  globalThis.gc?.();
  const before = liveHandles();
  const rss = process.memoryUsage.rss();
  for (let i = 0; i < 200; i++) await once();
  globalThis.gc?.();
  expect(liveHandles()).toEqual(before);
  expect(process.memoryUsage.rss() - rss).toBeLessThan(60 << 20);
}, 600_000);
