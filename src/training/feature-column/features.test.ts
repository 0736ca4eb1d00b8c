/** Features as programs have them: of unknown rank, empty, from serialized examples; and what models report. */
import { expect, test } from 'vitest';
import { Graph, Session, Tensor, tf } from '../../index.js';
import { encodeExample } from '../../tensorflow/formats/example/encode.js';

const fc = tf.featureColumn;
const words = fc.categoricalColumnWithVocabularyList('words', ['a', 'b', 'c']);
const size = fc.numericColumn('size', { defaultValue: 1 });

async function run<T>(build: () => T, use: (made: T, session: Session) => Promise<void>): Promise<void> {
  using graph = new Graph();
  const made = graph.asDefault(build);
  await using session = Session.open({ graph });
  await session.run(graph.asDefault(() => [tf.globalVariablesInitializer(), tf.tablesInitializer()]));
  await use(made, session);
}

test('a feature whose rank is known only in a run may be a vector or a matrix', () =>
  run(
    () => {
      const features = {
        size: tf.placeholder({ shape: null, name: 'size' }),
        words: tf.placeholder({ dtype: 'string', shape: null, name: 'words' }),
      };
      return fc.inputLayer(features, [size, fc.indicatorColumn(words)]);
    },
    async (result, session) => {
      const rows = [
        [2, 0, 1, 0],
        [3, 1, 0, 0],
      ];
      const vectors = { size: [2, 3], words: ['b', 'a'] };
      expect((await session.run(result, { feeds: vectors })).toArray()).toEqual(rows);
      const matrices = {
        size: [[2], [3]],
        words: [
          ['', 'b'],
          ['a', 'other'],
        ],
      };
      expect((await session.run(result, { feeds: matrices })).toArray()).toEqual(rows);
    },
  ));

test('a sparse vector, a batch without words and an empty batch', () =>
  run(
    () => {
      const sparse = tf.SparseTensor.placeholder({ dtype: 'string', name: 'words' });
      return [sparse, fc.inputLayer({ words: sparse }, [fc.indicatorColumn(words)])] as const;
    },
    async ([{ indices, values, denseShape }, result], session) => {
      const fed = async (
        places: readonly (readonly number[])[],
        list: readonly string[],
        shape: readonly number[],
      ) => {
        const at = Tensor.of(places.flat().map(BigInt), {
          dtype: 'int64',
          shape: [places.length, shape.length],
        });
        const feeds = new Map<typeof indices | typeof values, Tensor>([
          [indices, at],
          [values, Tensor.of([...list], { dtype: 'string', shape: [list.length] })],
          [denseShape, Tensor.of(shape.map(BigInt), { dtype: 'int64' })],
        ]);
        return (await session.run(result, { feeds: feeds as never })).toArray();
      };
      expect(await fed([[1]], ['c'], [2])).toEqual([
        [0, 0, 0],
        [0, 0, 1],
      ]);
      expect(await fed([], [], [2, 0])).toEqual([
        [0, 0, 0],
        [0, 0, 0],
      ]);
      expect(await fed([], [], [0, 4])).toEqual([]);
    },
  ));

test('examples are parsed with the specification of the columns', () =>
  run(
    () => {
      const examples = [
        encodeExample({ words: ['c', 'a', 'c'] }),
        encodeExample({ size: Float32Array.of(5) }),
      ];
      const columns = [size, fc.indicatorColumn(words)];
      const serialized = tf.constant(Tensor.of(examples, { dtype: 'string' }));
      return fc.inputLayer(tf.parseExample(serialized, fc.makeParseExampleSpec(columns)), columns);
    },
    async (result, session) => {
      expect((await session.run(result)).toArray()).toEqual([
        [1, 1, 0, 2],
        [5, 0, 0, 0],
      ]);
    },
  ));

test('a model reports its variables and parts by column', () => {
  using graph = new Graph();
  graph.asDefault(() => {
    const table = fc.embeddingColumn(words, 2);
    const features = { words: ['a', 'b'], size: [1, 2] };
    const [colsToVars, colsToOutputTensors] = [new Map(), new Map()];
    tf.variableScope('m', () => fc.inputLayer(features, [size, table], { colsToVars, colsToOutputTensors }), {
      partitioner: tf.fixedSizePartitioner(2),
    });
    const names = (list: { name: string }[]) => list.map(({ name }) => name);
    expect(names(colsToVars.get(table))).toEqual(
      [0, 1].map((part) => `m/input_layer/words_embedding/embedding_weights/part_${part}`),
    );
    expect(colsToVars.get(size)).toEqual([]);
    expect(colsToOutputTensors.get(table)).toMatchObject({ shape: [2, 2] });
    colsToVars.clear();
    fc.linearModel(features, [size, words], { colsToVars, weightCollections: ['mine'] });
    expect(names(colsToVars.get('bias'))).toEqual(['linear_model/bias_weights']);
    expect(names(colsToVars.get(words))).toEqual(['linear_model/words/weights']);
    expect(names(tf.getCollection('mine'))).toHaveLength(3);
  });
});
