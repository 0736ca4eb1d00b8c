/** A transformer of two blocks that says whether a sequence of tokens reads the same backwards. */
import { defineJob, type Output, tf } from 'shoal';

const [TOKENS, LENGTH, SIZE] = [4, 6, 16];
const { layers } = tf.keras;
type Tensor = ReturnType<typeof tf.keras.Input>;

// #region layer
/** Adds a number for each place, which the layer learns. */
class Positions extends tf.keras.Layer {
  #places: ReturnType<tf.keras.Layer['addWeight']> | undefined;

  override build(shape: readonly (number | null)[]) {
    this.#places = this.addWeight('places', { shape: [shape[1] as number, shape[2] as number] });
  }

  override call(x: Output) {
    return tf.add(x, this.#places!);
  }
}

// #endregion
// #region model
const block = (x: Tensor): Tensor => {
  const attended = layers.multiHeadAttention(2, SIZE / 2, { dropout: 0.05 }).apply([x, x]);
  const first = layers.layerNorm().apply(layers.add().apply([x, attended]));
  const wide = layers.dense(2 * SIZE, { activation: 'gelu' }).apply(first);
  const narrow = layers.dense(SIZE).apply(wide);
  return layers.layerNorm().apply(layers.add().apply([first, narrow]));
};

const tokens = tf.keras.Input({ shape: [LENGTH], dtype: 'int32' });
const embedded = new Positions().apply(layers.embedding(TOKENS, SIZE).apply(tokens));
const pooled = layers.globalAveragePooling1d().apply(block(block(embedded)));
const outputs = layers.dense(1, { activation: 'sigmoid' }).apply(pooled);

export const model = new tf.keras.Model({ inputs: tokens, outputs, seed: 1 }).compile({
  optimizer: tf.train.adam(0.003),
  loss: 'binaryCrossentropy',
  metrics: ['accuracy', 'auc'],
});
// #endregion

/** Half of the sequences are made of a half and its mirror image. */
const sequences = () => {
  const count = 64;
  const half = tf.randomUniform([count, LENGTH / 2], 0, TOKENS, { dtype: 'int32' });
  const other = tf.randomUniform([count, LENGTH / 2], 0, TOKENS, { dtype: 'int32' });
  const isMirrored = tf.randomUniform([count, 1]).less(0.5);
  const mirror = tf.reverse(half, [1]);
  const x = tf.concat([half, tf.where(isMirrored, mirror, other)], 1);
  const y = tf.all(tf.equal(x, tf.reverse(x, [1])), { axis: 1, keepDims: true });
  return { x, y: tf.cast(y, 'float32') };
};

export default defineJob(
  model.toJob({
    name: 'transformer',
    input: sequences,
    train: { lastStep: 500, checkpoint: { everySecs: 60 } },
    evaluate: { batches: 10 },
    export: {},
  }),
);
