/** How large models are loaded. The models here are small. */
import { cp, mkdtemp, open, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { tf } from '../../../index.js';
import { encodeExample } from '../../../tensorflow/formats/example/encode.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { liveHandles } from '../../../tensorflow/native/handle.js';
import { cachedPart } from '../../../tensorflow/native/memory/page-cache.js';
import { Session } from '../../../tensorflow/session/session.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { LoadedModel, loadSavedModel, SavedModelBuilder, simpleSave } from '../index.js';
import { digitsModel } from '../testing/digits-model.js';
import { loadLargeModel } from './load-large-model.js';
import { chooseMetaGraph, readSavedModel } from './read-model.js';

const root = await mkdtemp(join(tmpdir(), 'shoal-direct-'));
const digits = join(root, 'digits');
const wide = join(root, 'wide');
const DATA = 'variables/variables.data-00000-of-00001';

/** Large and small values, some with the same alignment in the file as in memory, some across several windows. */
const SHAPES = [[3], [1500, 1024], [0, 4], [7, 11], [2_000_001], [1 << 20]];

beforeAll(async () => {
  const vocabulary = join(root, 'classes.txt');
  await writeFile(vocabulary, 'a\nb\nc\nd\n');
  const model = digitsModel({ vocabulary, parts: 2 });
  const session = Session.open({ graph: model.graph });
  await session.run([model.init, model.tables]);
  await using builder = new SavedModelBuilder(digits);
  await builder.addMetaGraphAndVariables(session, ['serve'], { signatureDefMap: model.signatureDefMap });
  await builder.save();
  await session.close();
  model.graph.dispose();
  const graph = new Graph();
  await graph.asDefault(async () => {
    const scale = tf.placeholder({ shape: [], name: 'scale' });
    const sums = SHAPES.map((shape, i) => {
      const initializer = tf.randomUniformInitializer(-1, 1, { seed: i + 1 });
      return tf.sum(tf.variable(`v${i}`, { shape, initializer }).mul(scale));
    });
    const init = tf.globalVariablesInitializer();
    const session = Session.open({ graph });
    await session.run(init);
    await simpleSave(session, wide, { inputs: { scale }, outputs: { sums: tf.stack(sums) } });
    await session.close();
  });
  // Graphs that are freed when they are collected would change the counts of handles.
  graph.dispose();
});
afterAll(() => rm(root, { recursive: true, force: true }));

const WAYS = [
  ['past the page cache', { maxCached: 1 }],
  ['through the page cache', { maxCached: -1 }],
  ['on a thread of low priority', { maxCached: 1, inBackground: true }],
] as const;

async function load(directory: string, options: Partial<Parameters<typeof loadLargeModel>[2]> = {}) {
  const meta = chooseMetaGraph((await readSavedModel(directory))!, ['serve'], directory);
  const session = await loadLargeModel(directory, meta, { timeoutMs: 60_000, minBytes: 0, ...options });
  return session && LoadedModel.open(directory, ['serve'], session, meta);
}

const valuesOf = async (model: LoadedModel, signature: string, inputs: object) => {
  const outputs = await model.signatures[signature]!(inputs as never);
  return Object.values(outputs).map((value) => (value as Tensor).toArray());
};

describe.each(WAYS)('a load %s', (way, options) => {
  test.each([
    ['partitioned variables', digits, 'predict_images', { images: [[1, 2, 3, 4, 5, 6]] }],
    [
      'a table from an asset',
      digits,
      'serving_default',
      { inputs: [encodeExample({ x: [1, 2, 3, 4, 5, 6] })] },
    ],
    ['variables of many sizes', wide, 'serving_default', { scale: 2 }],
  ])('gives the values of a load by TensorFlow: %s', async (_, directory, signature, inputs) => {
    await using expected = await loadSavedModel(directory);
    await using model = (await load(directory, options))!;
    expect(await valuesOf(model, signature, inputs)).toEqual(await valuesOf(expected, signature, inputs));
  });

  test('leaves damaged models to TensorFlow, whose error names the file', async () => {
    const flipped = join(root, `flipped ${way}`);
    await cp(wide, flipped, { recursive: true });
    const bytes = await readFile(join(flipped, DATA));
    bytes[5_000_000]! ^= 1;
    await writeFile(join(flipped, DATA), bytes);
    const short = join(root, `short ${way}`);
    await cp(wide, short, { recursive: true });
    await truncate(join(short, DATA), 6_000_000);
    const before = liveHandles();
    for (const directory of [flipped, short]) {
      expect(await load(directory, options)).toBeUndefined();
      await expect(loadSavedModel(directory)).rejects.toMatchObject({
        code: 'SHOAL_CORRUPT',
        message: expect.stringContaining('variables.data-00000-of-00001'),
      });
    }
    expect(liveHandles()).toEqual(before);
  });

  test('leaves no handle and no memory behind', async () => {
    const once = async () => {
      await using model = (await load(wide, options))!;
      await valuesOf(model, 'serving_default', { scale: 1 });
    };
    for (let i = 0; i < 3; i++) await once();
    const [before, rss] = [liveHandles(), process.memoryUsage.rss()];
    for (let i = 0; i < 8; i++) await once();
    expect(liveHandles()).toEqual(before);
    // The variables of these loads have 150 MB.
    expect(process.memoryUsage.rss() - rss).toBeLessThan(60 << 20);
  });
});

test('small models are left to TensorFlow', async () => {
  expect(await load(wide, { minBytes: 64 << 20 })).toBeUndefined();
});

test('a load ends with its signal and its deadline', async () => {
  const signal = AbortSignal.abort();
  await expect(load(wide, { signal })).rejects.toMatchObject({ code: 'SHOAL_ABORTED' });
  await expect(load(wide, { timeoutMs: 0 })).rejects.toMatchObject({ code: 'SHOAL_TF_DEADLINE_EXCEEDED' });
});

test.runIf(process.platform === 'linux')(
  'reports that a file just written is in the page cache',
  async () => {
    const path = join(root, 'cached');
    await writeFile(path, Buffer.alloc(1 << 20, 1));
    const file = await open(path);
    expect(cachedPart(file.fd, 1 << 20)).toBe(1);
    expect(cachedPart(file.fd, 0)).toBeUndefined();
    await file.close();
  },
);
