/** Softmax regression on digits, with the signatures under which it is served. */
import { type Output, tf } from 'shoal';
import { classificationSignatureDef, predictSignatureDef } from 'shoal/saved-model';
import { PIXELS } from '../digits/data.js';

export const CLASSES = Array.from({ length: 10 }, (_, digit) => String(digit));

/** The input is serialized examples, or images that are fed in their place. */
export function softmaxModel() {
  // 3. The input: serialized examples, or images that are fed in their place
  const examples = tf.placeholder({ dtype: 'string', shape: [null], name: 'tf_example' });
  const { x: parsed } = tf.parseExample(examples, { x: tf.fixedLenFeature([PIXELS], 'float32') });
  const x = tf.identity(parsed, { name: 'x' }) as Output<'float32'>;
  const labels = tf.placeholder({ shape: [null, CLASSES.length], name: 'labels' });
  // 4. Softmax regression
  const w = tf.newVariable(tf.zeros([PIXELS, CLASSES.length]), { name: 'w' });
  const b = tf.newVariable(tf.zeros([CLASSES.length]), { name: 'b' });
  const y = tf.softmax(tf.matMul(x, w).add(b));
  // 5. The loss
  const loss = tf.neg(tf.sum(labels.mul(tf.log(tf.clipByValue(y, 1e-10, 1)))));
  // 6. The signatures for serving
  const { values, indices } = tf.raw.topKV2(y, tf.constant(CLASSES.length, { dtype: 'int32' }));
  const classes = tf.lookup.indexToStringTableFromTensor(CLASSES).lookup(tf.cast(indices, 'int64'));
  const signatureDefMap = {
    predict_images: predictSignatureDef({ inputs: { images: x }, outputs: { scores: y } }),
    serving_default: classificationSignatureDef({ examples, classes, scores: values }),
  };
  return { x, labels, y, classes, topScores: values, loss, signatureDefMap };
}
