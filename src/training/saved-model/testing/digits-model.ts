/** The model of scenario 002, small: softmax regression fed as examples or images, class names from a table. */

import { type Output, tf } from '../../../index.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { classificationSignatureDef, predictSignatureDef } from '../signatures/signature-def.js';

export const CLASSES = ['zero', 'one', 'two', 'three'];
export const PIXELS = 6;

/** `vocabulary` is a file of class names; default: the names are in the graph. Two ps devices are named, as on a cluster. */
export function digitsModel({ vocabulary, parts = 1 }: { vocabulary?: string; parts?: number } = {}) {
  const graph = new Graph();
  graph.seed = 3;
  return graph.asDefault(() => {
    const globalStep = tf.createGlobalStep();
    const examples = tf.placeholder({ dtype: 'string', shape: [null], name: 'tf_example' });
    const parsed = tf.parseExample(examples, { x: tf.fixedLenFeature([PIXELS], 'float32') });
    const x = tf.identity(parsed.x, { name: 'x' }) as Output<'float32'>;
    const labels = tf.placeholder({ shape: [null, CLASSES.length], name: 'labels' });
    const w = tf.getVariable('w', {
      shape: [PIXELS, CLASSES.length],
      initializer: tf.randomNormalInitializer(),
      ...(parts > 1 ? { partitioner: tf.fixedSizePartitioner(parts) } : {}),
    });
    const b = tf.variable('b', { shape: [CLASSES.length], initializer: tf.zerosInitializer() });
    const y = tf.softmax(tf.matMul(x, w).add(b));
    const loss = tf.neg(tf.sum(labels.mul(tf.log(y))));
    const trainOp = new tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss, { globalStep });
    const { values, indices } = tf.raw.topKV2(y, tf.constant(CLASSES.length, { dtype: 'int32' }));
    const table = vocabulary
      ? tf.lookup.indexToStringTableFromFile(vocabulary)
      : tf.lookup.indexToStringTableFromTensor(CLASSES);
    const classes = table.lookup(tf.cast(indices, 'int64'));
    return {
      graph,
      x,
      y,
      trainOp,
      init: tf.globalVariablesInitializer(),
      tables: tf.tablesInitializer(),
      signatureDefMap: {
        predict_images: predictSignatureDef({ inputs: { images: x }, outputs: { scores: y } }),
        serving_default: classificationSignatureDef({ examples, classes, scores: values }),
      },
    };
  });
}
