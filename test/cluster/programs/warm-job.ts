/** Initializes variables from a SavedModel on the chief's disk; its steps change only the global step. */
import { defineJob, tf } from 'shoal';
import { initFromCheckpoint } from 'shoal/train';

export default defineJob({
  name: 'warm',
  input: () => ({ x: tf.constant([1]) }),
  model({ input: { x } }) {
    const w = tf.partitionedVariable('new/w', {
      shape: [4, 2],
      initializer: tf.zerosInitializer(),
      partitioner: tf.fixedSizePartitioner(2),
    });
    const b = tf.variable('b', { shape: [1], initializer: [5] });
    initFromCheckpoint(process.env.WARM_FROM as string, { 'old/': 'new/' });
    return {
      loss: tf.sum(w.toOutput()).add(b).mul(x).sum(),
      optimizer: new tf.train.GradientDescentOptimizer(0),
      outputs: { w: w.toOutput(), b },
    };
  },
  train: { lastStep: 20, checkpoint: { everySteps: 10 } },
});
