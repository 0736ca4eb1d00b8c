/**
 * Every kind of column equals TensorFlow's: results, gradients, names and shapes of variables, parse specifications. The
 * variables have the values of TensorFlow's checkpoint, and TensorFlow restores those saved here.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askPython } from '../../../test/python.js';
import { Graph, type Output, Session, type Tensor, tf } from '../../index.js';
import { SparseTensor } from '../../tensorflow/layers/sparse/sparse-tensor.js';
import { MonitoredTrainingSession, Saver } from '../train/index.js';
import { type ColumnCall, columnCases, type FeatureSpec } from './testing/cases.js';

interface Answer {
  readonly result: number[][];
  readonly gradients: Record<string, number[]>;
  readonly variables: Record<string, number[]>;
  readonly trainable: string[];
  readonly model: string[];
  readonly spec: Record<string, unknown>;
}

type Column = tf.featureColumn.DenseColumn & tf.featureColumn.CategoricalColumn;

const folder = mkdtempSync(join(tmpdir(), 'shoal-columns-'));
const vocabulary = join(folder, 'colors.txt');
writeFileSync(vocabulary, 'red\ngreen\nblue\nblack');
const cases = columnCases(vocabulary);
const checkpoint = (of: string, index: number): string => join(folder, `${of}-${index}`, 'model.ckpt');
const PROGRAM = new URL('./testing/columns.py', import.meta.url);
const ask = (restore: boolean, checkpointOf: (index: number) => string | undefined): Promise<Answer[]> =>
  askPython<Answer[]>(PROGRAM, {
    restore,
    cases: cases.map((one, i) => ({ ...one, checkpoint: checkpointOf(i) })),
  });

let expected: Answer[];
beforeAll(async () => {
  expected = await ask(false, (index) => checkpoint('python', index));
}, 180_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const FUNCTIONS: Record<string, unknown> = { log1p: (x: Output) => tf.log1p(x) };

function made({ call, args, options = {} }: ColumnCall): unknown {
  const argument = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(argument);
    return typeof value === 'object' && value !== null ? made(value as ColumnCall) : value;
  };
  const named = Object.entries(options).map(([name, value]) => [
    name,
    name === 'normalizerFn' ? FUNCTIONS[value as string] : value,
  ]);
  const functions = tf.featureColumn as unknown as Record<string, (...args: unknown[]) => unknown>;
  return functions[call]?.(...args.map(argument), ...(named.length > 0 ? [Object.fromEntries(named)] : []));
}

function feature({ dtype, values, indices, denseShape }: FeatureSpec): Output | SparseTensor {
  const constant = tf.constant(values as never, { dtype });
  if (!indices || !denseShape) return constant;
  return new SparseTensor({ indices: indices as never, values: constant, denseShape: denseShape as never });
}

/** The columns, the joined results of the model in its scopes, and the features. */
function build(index: number) {
  const one = cases[index] as (typeof cases)[number];
  const features = Object.fromEntries(
    Object.entries(one.features).map(([key, spec]) => [key, feature(spec)]),
  );
  const columns = one.columns.flatMap((spec) => made(spec) as Column[] | Column);
  const model = tf.featureColumn[one.model] as typeof tf.featureColumn.linearModel;
  const results = (one.scopes ?? ['']).map((scope) =>
    scope === ''
      ? model(features, columns, one.options)
      : tf.variableScope(scope, () => model(features, columns, one.options), {
          reuse: 'auto',
          ...(one.partitions === undefined ? {} : { partitioner: tf.fixedSizePartitioner(one.partitions) }),
        }),
  );
  return { columns, features, result: tf.concat(results, 1) };
}

function expectClose(actual: Tensor, wanted: unknown, what: string): void {
  const [have, want] = [actual.toArray(), wanted].map((value) => [value].flat(9) as number[]);
  expect(have?.length, what).toBe(want?.length);
  have?.forEach((value, i) => {
    expect(Math.abs(value - (want?.[i] ?? Number.NaN)), `${what}[${i}]: ${value}`).toBeLessThan(
      1e-5 * Math.max(1, Math.abs(value)),
    );
  });
}

/** The results with the values that are saved, and where. */
const own: Tensor[] = [];
const saved: (string | undefined)[] = [];

describe('equals TensorFlow from its checkpoint', () => {
  it.each(cases.map(({ title }, index) => [title, index] as const))('%s', async (_, index) => {
    using graph = new Graph();
    const want = expected[index] as Answer;
    await graph.asDefault(async () => {
      const { columns, features, result } = build(index);
      const variables = tf.globalVariables();
      expect(Object.fromEntries(variables.map(({ name, shape }) => [name, shape]))).toEqual(want.variables);
      expect(tf.trainableVariables().map(({ name }) => name)).toEqual(want.trainable);
      const modelVariables = tf.getCollection<{ name: string }>('model_variables').map(({ name }) => name);
      expect([...new Set(modelVariables)].sort()).toEqual(want.model);
      expect(tf.featureColumn.makeParseExampleSpec(columns)).toEqual(want.spec);
      const numbers = Object.entries(features).filter(([, { dtype }]) => dtype === 'float32');
      const sources = [
        ...tf.trainableVariables(),
        ...numbers.map(([, value]) => (value instanceof SparseTensor ? value.values : value)),
      ];
      const names = [...tf.trainableVariables().map(({ name }) => name), ...numbers.map(([key]) => key)];
      const factors = tf.cast(
        tf.reshape(tf.range(1, tf.add(tf.size(result), 1)), tf.shape(result)),
        'float32',
      );
      const found = tf.gradients(tf.sum(tf.mul(result, factors)), sources);
      const gradients = names.flatMap((name, i) => {
        const gradient = found[i];
        if (gradient === null || gradient === undefined) return [];
        // Tables, and the weights of ids: only the rows of the batch change.
        const isTable =
          /embedding_weights/.test(name) || /(words|ids|other)(?!\w*_embedding)\w*\/weights/.test(name);
        if (isTable) expect(gradient, name).toBeInstanceOf(tf.IndexedSlices);
        return [[name, gradient instanceof tf.IndexedSlices ? gradient.toDense() : gradient] as const];
      });
      expect(gradients.map(([name]) => name).sort()).toEqual(Object.keys(want.gradients).sort());
      await using session = Session.open({ graph });
      await session.run([tf.globalVariablesInitializer(), tf.tablesInitializer()]);
      const saver = variables.length > 0 ? new Saver() : undefined;
      await saver?.restore(session, checkpoint('python', index));
      expectClose(await session.run(result), want.result, 'result');
      const values = await session.run(gradients.map(([, gradient]) => gradient));
      for (const [i, [name]] of gradients.entries())
        expectClose(values[i] as Tensor, want.gradients[name], `gradient of ${name}`);
      // Other values, for TensorFlow to restore.
      await session.run(variables.map((variable) => variable.assign(tf.sub(1, tf.mul(variable, 2)))));
      saved[index] = await saver?.save(session, checkpoint('shoal', index), { globalStep: 1 });
      own[index] = await session.run(result);
    });
  });
});

it('a table starts with the values of a checkpoint of TensorFlow', async () => {
  const index = cases.findIndex(({ title }) => title === 'embedding of hashed words, mean');
  using graph = new Graph();
  await graph.asDefault(async () => {
    const words = tf.featureColumn.categoricalColumnWithHashBucket('words', 50);
    const column = tf.featureColumn.embeddingColumn(words, 4, {
      ckptToLoadFrom: checkpoint('python', index),
      tensorNameInCkpt: 'input_layer/words_embedding/embedding_weights',
    });
    const features = { words: feature(cases[index]?.features.words as FeatureSpec) };
    const partitioner = tf.fixedSizePartitioner(3);
    const result = tf.variableScope('deep', () => tf.featureColumn.inputLayer(features, [column]), {
      partitioner,
    });
    tf.train.getOrCreateGlobalStep();
    const value = await MonitoredTrainingSession({}, async (session) => session.run(result));
    expectClose(value as Tensor, expected[index]?.result, 'result');
  });
});

it('TensorFlow restores the checkpoints', async () => {
  const restored = await ask(true, (index) => saved[index]);
  expect(restored.length).toBe(cases.length);
  for (const [i, { result }] of restored.entries())
    expectClose(own[i] as Tensor, result, cases[i]?.title ?? '');
}, 180_000);
