/**
 * classic.ts as a job: softmax regression on digits. It exports at the end, and its evaluator exports the best
 * checkpoint.
 *
 *   npx shoal run examples/softmax-export/job.ts --ps 2 --workers 2
 *   npx shoal predict .shoal/softmax-export/worker-0/export/VERSION --signature predict_images --input images.json
 */
import { parseArgs } from 'node:util';
import { defineJob, type Output, Tensor, tf } from 'shoal';
import { classificationSignatureDef, predictSignatureDef } from 'shoal/saved-model';
import { batches, type DigitSet, loadDigits, PIXELS } from '../digits/data.js';
import { CLASSES } from './model.js';

const { values } = parseArgs({ options: { steps: { type: 'string', default: '1000' } } });
const BATCH = 100;
const digits = loadDigits();

const recordOf = ({ images, labels, count }: DigitSet) => ({
  images: Tensor.of(images, { shape: [count, PIXELS] }),
  labels,
});

/** Each record is a batch. */
const dataset = (count: number, source: () => Iterable<DigitSet>) =>
  tf.data.generator(
    function* () {
      for (const set of source()) yield recordOf(set);
    },
    {
      element: {
        images: { dtype: 'float32', shape: [count, PIXELS] },
        labels: { dtype: 'int32', shape: [count] },
      },
      capacity: 4,
    },
  );

export default defineJob({
  name: 'softmax-export',
  input: ({ index }) => dataset(BATCH, () => batches(digits.train, BATCH, 1 + index)),
  model({ input: { images, labels } }) {
    const w = tf.variable('w', { shape: [PIXELS, CLASSES.length], initializer: tf.zerosInitializer() });
    const b = tf.variable('b', { shape: [CLASSES.length], initializer: tf.zerosInitializer() });
    const scores = tf.softmax(tf.matMul(images, w).add(b));
    const oneHot = tf.oneHot(labels, CLASSES.length);
    const loss = tf.neg(tf.sum(oneHot.mul(tf.log(tf.clipByValue(scores, 1e-10, 1)))));
    return { loss, optimizer: tf.train.sgd(0.01), outputs: { scores } };
  },
  train: { lastStep: Number(values.steps), checkpoint: { everySecs: 5 } },
  evaluate: {
    input: () => dataset(digits.heldOut.count, () => [digits.heldOut]),
    metrics: ({ input: { labels }, outputs: { scores } }) => ({
      accuracy: tf.metrics.accuracy(labels, tf.argMax(scores, 1, 'int32')),
    }),
    pollSecs: 1,
  },
  export: {
    best: { metric: 'accuracy', mode: 'max' },
    signatures({ model }) {
      const examples = tf.placeholder({ dtype: 'string', shape: [null], name: 'tf_example' });
      const parsed = tf.parseExample(examples, { x: tf.fixedLenFeature([PIXELS], 'float32') });
      const images = tf.identity(parsed.x, { name: 'x' }) as Output<'float32'>;
      const { scores } = model({ images }).outputs;
      const { values, indices } = tf.raw.topKV2(scores, tf.constant(CLASSES.length, { dtype: 'int32' }));
      const names = tf.lookup.indexToStringTableFromTensor(CLASSES);
      return {
        predict_images: predictSignatureDef({ inputs: { images }, outputs: { scores } }),
        serving_default: classificationSignatureDef({
          examples,
          classes: names.lookup(tf.cast(indices, 'int64')),
          scores: values,
        }),
      };
    },
  },
});
