/** Exports, verified with unmodified TensorFlow and with Shoal's loader. */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { askPython } from '../../../test/python.js';
import { type Output, tf } from '../../index.js';
import { encodeExample } from '../../tensorflow/formats/example/encode.js';
import { Graph } from '../../tensorflow/graph/graph.js';
import { Session } from '../../tensorflow/session/session.js';
import type { Tensor } from '../../tensorflow/tensor/tensor.js';
import { applyWarmStarts, initFromCheckpoint } from '../train/index.js';
import { loadSavedModel, predictSignatureDef, SavedModelBuilder, simpleSave, tags } from './index.js';
import { CLASSES, digitsModel } from './testing/digits-model.js';

const ORACLE = new URL('./testing/oracle.py', import.meta.url);
const IMAGES = [
  [0.1, 0.5, 0.2, 0.9, 0, 0.3],
  [1, 0, 0.25, 0.5, 0.75, 0],
];
const EXAMPLES = IMAGES.map((x) => encodeExample({ x }));

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-export-'));
});
afterAll(() => rm(root, { recursive: true, force: true }));

interface Expected {
  readonly dir: string;
  readonly scores: number[];
}

/** Trains a few steps, exports, and returns the results of the session itself. */
async function exportDigits(
  dir: string,
  options: Parameters<typeof digitsModel>[0] & {
    readonly stripDefaultAttrs?: boolean;
    readonly asText?: boolean;
  },
): Promise<Expected> {
  const model = digitsModel(options);
  await using session = Session.open({ graph: model.graph });
  await session.run([model.init, model.tables]);
  const labels = IMAGES.map((_, i) => CLASSES.map((_, j) => (i === j ? 1 : 0)));
  for (let i = 0; i < 5; i++) await session.run(model.trainOp, { feeds: { x: IMAGES, labels } });
  const before = model.graph.operations().length;
  await using builder = new SavedModelBuilder(dir);
  await builder.addMetaGraphAndVariables(session, [tags.serving], {
    signatureDefMap: model.signatureDefMap,
    legacyInitOp: model.tables,
    ...(options.stripDefaultAttrs ? { stripDefaultAttrs: true } : {}),
  });
  await builder.save({ asText: options.asText ?? false });
  expect(model.graph.operations().length).toBe(before);
  const scores = await session.run(model.y, { feeds: { x: IMAGES } });
  return { dir, scores: Array.from(scores.data, Number) };
}

const classesOf = (scores: readonly number[]) =>
  IMAGES.flatMap((_, row) => {
    const own = scores.slice(row * CLASSES.length, (row + 1) * CLASSES.length);
    return own.map((score, i) => [score, CLASSES[i]] as const).sort((a, b) => b[0] - a[0]);
  });

test('exports load in TensorFlow 1 and 2 and in its command line, with the same scores and classes', async () => {
  const vocabulary = join(root, 'classes.txt');
  await writeFile(vocabulary, `${CLASSES.join('\n')}\n`);
  const made = [
    await exportDigits(join(root, 'plain/1'), {}),
    await exportDigits(join(root, 'file/1'), { vocabulary }),
    await exportDigits(join(root, 'parts/1'), { parts: 3, stripDefaultAttrs: true }),
    await exportDigits(join(root, 'text/1'), { asText: true }),
  ];
  await rm(vocabulary);
  const images = { signature: 'predict_images', inputs: { images: IMAGES } };
  const examples = {
    signature: 'serving_default',
    inputs: { inputs: EXAMPLES.map((bytes) => Buffer.from(bytes).toString('latin1')) },
  };
  const feed = `images=[${IMAGES.map((row) => `[${row.join(',')}]`).join(',')}]`;
  const requests = made.flatMap(({ dir }) => [
    { how: 'v1', dir, ...images },
    { how: 'v1', dir, ...examples },
    { how: 'v2', dir, ...images },
    { how: 'v2', dir, ...examples },
  ]);
  const [first] = made as [Expected];
  const show = { how: 'cli', args: ['show', '--dir', first.dir, '--all'] };
  const run = {
    how: 'cli',
    args: [
      ...['run', '--dir', first.dir, '--tag_set', 'serve', '--signature_def', 'predict_images'],
      ...['--input_exprs', feed],
    ],
  };
  const answers = await askPython<never[]>(ORACLE, [...requests, show, run]);
  for (const [i, { dir, scores }] of made.entries()) {
    const [v1, v1Classes, v2, v2Classes] = answers.slice(4 * i) as unknown as [
      { out: { scores: number[] }; ops: string[]; devices: string[] },
      { out: { classes: string[]; scores: number[] } },
      { scores: number[] },
      { classes: string[]; scores: number[] },
    ];
    const ranked = classesOf(scores);
    for (const got of [v1.out.scores, v2.scores]) expectClose(got, scores);
    for (const got of [v1Classes.out, v2Classes]) {
      expect(got.classes).toEqual(ranked.map(([, name]) => name));
      expectClose(
        got.scores,
        ranked.map(([score]) => score),
      );
    }
    expect(v1.ops.filter((op) => /Apply|Grad|Momentum/.test(op))).toEqual([]);
    expect(v1.devices).toEqual(['']);
    await using model = await loadSavedModel(dir, { verify: true });
    const ours = await model.signatures.predict_images!({ images: IMAGES });
    expectClose([...(ours.scores as Tensor<'float32'>).data], scores);
    const named = await model.signatures.serving_default!({ inputs: EXAMPLES });
    expect((named.classes as Tensor).toArray()).toEqual(
      IMAGES.map((_, row) => ranked.slice(row * 4, row * 4 + 4).map(([, name]) => name)),
    );
  }
  const [shown, ran] = answers.slice(-2) as unknown as { code: number; out: string; err: string }[];
  expect(shown).toMatchObject({ code: 0 });
  expect(shown?.out).toContain('tensorflow/serving/classify');
  expect(ran?.out + ran!.err).toContain('Result for output key scores');
  expect(await readdir(join(root, 'plain'))).toEqual(['1']);
  expect((await readdir(join(root, 'file/1'))).sort()).toEqual(['assets', 'saved_model.pb', 'variables']);
  expect((await readFile(join(root, 'file/1/saved_model.pb'))).includes(root)).toBe(false);
}, 300_000);

function expectClose(got: readonly number[], expected: readonly number[]): void {
  expect(got.length).toBe(expected.length);
  for (const [i, value] of got.entries()) expect(Math.abs(value - expected[i]!)).toBeLessThan(1e-6);
}

/** A model that adds a variable to its input. */
function adder(value = 1) {
  const graph = new Graph();
  return graph.asDefault(() => {
    const x = tf.placeholder({ shape: [null], name: 'x' });
    const w = tf.variable('w', { shape: [1], initializer: [value] });
    return { graph, x, w, y: x.add(w), init: tf.globalVariablesInitializer() };
  });
}

test('simpleSave exports without variables, and input of training becomes a placeholder', async () => {
  using graph = new Graph();
  const { a, b, y } = graph.asDefault(() => {
    const dataset = tf.data.fromTensorSlices({ a: [1, 2], b: [3, 4] }).batch(2);
    const next = dataset.makeOneShotIterator().getNext() as { a: Output; b: Output };
    return { ...next, y: next.a.mul(next.b) };
  });
  await using session = Session.open({ graph });
  const dir = join(root, 'iterator');
  await simpleSave(session, dir, { inputs: { a, b }, outputs: { y } });
  await using model = await loadSavedModel(dir);
  const out = await model.signatures.serving_default!({ a: [2, 3], b: [5, 7] });
  expect((out.y as Tensor).toArray()).toEqual([10, 21]);
  await expect(
    simpleSave(session, join(root, 'half'), { inputs: { a }, outputs: { y } }),
  ).rejects.toMatchObject({
    code: 'SHOAL_INVALID_ARGUMENT',
    message: expect.stringMatching(/Iterator/),
  });
  expect((await readdir(root)).filter((name) => name.includes('half'))).toEqual([]);
});

test('a second graph shares the variables of the first', async () => {
  const { graph, x, y, w, init } = adder(5);
  const twice = graph.asDefault(() => x.mul(w).mul(2));
  await using session = Session.open({ graph });
  await session.run(init);
  const dir = join(root, 'two-graphs');
  await using builder = new SavedModelBuilder(dir);
  await builder.addMetaGraphAndVariables(session, ['serve'], {
    signatureDefMap: { f: predictSignatureDef({ inputs: { x }, outputs: { y } }) },
  });
  await builder.addMetaGraph(['serve', 'gpu'], {
    graph,
    signatureDefMap: { f: predictSignatureDef({ inputs: { x }, outputs: { y: twice } }) },
  });
  await builder.save();
  await using one = await loadSavedModel(dir);
  await using other = await loadSavedModel(dir, { tags: ['gpu', 'serve'] });
  expect(((await one.signatures.f!({ x: [1] })).y as Tensor).toArray()).toEqual([6]);
  expect(((await other.signatures.f!({ x: [1] })).y as Tensor).toArray()).toEqual([10]);
  await expect(loadSavedModel(dir, { tags: ['train'] })).rejects.toMatchObject({
    code: 'SHOAL_NOT_FOUND',
    hint: expect.stringContaining('[serve]'),
  });
});

test('variables are initialized from a SavedModel', async () => {
  const dir = join(root, 'warm');
  const from = adder(5);
  await using trained = Session.open({ graph: from.graph });
  await trained.run(from.init);
  await simpleSave(trained, dir, { inputs: { x: from.x }, outputs: { y: from.y } });
  const { graph, w } = adder(0);
  initFromCheckpoint(dir, { w: 'w' }, { graph });
  await using session = Session.open({ graph });
  await applyWarmStarts(session);
  expect((await session.run(w)).toArray()).toEqual([5]);
});

test('an export that is returned while its builder is disposed is complete', async () => {
  const model = digitsModel({});
  await using session = Session.open({ graph: model.graph });
  await session.run([model.init, model.tables]);
  const save = async () => {
    await using builder = new SavedModelBuilder(join(root, 'returned/1'));
    await builder.addMetaGraphAndVariables(session, [tags.serving], {
      signatureDefMap: model.signatureDefMap,
      legacyInitOp: model.tables,
    });
    return builder.save();
  };
  expect(await readdir(await save())).toContain('saved_model.pb');
});
