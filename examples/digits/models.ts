/** Two digit classifiers: from images [batch, 784] to logits [batch, 10]. */
import { type Output, tf } from 'shoal';
import { PIXELS } from './data.js';

/** One weight for each pixel and digit. */
export function softmaxRegression(images: Output): Output {
  return tf.layers.dense(images, 10, { kernelInitializer: tf.zerosInitializer(), name: 'softmax' });
}

/** Two convolutions, each followed by max pooling, then a dense layer. */
export function convnet(images: Output, seed = 1): Output {
  const filters = (x: Output, count: number, at: number): Output =>
    tf.layers.conv2d(x, count, 5, {
      padding: 'same',
      activation: tf.relu,
      kernelInitializer: tf.heNormal({ seed: seed + at }),
    });
  const pixels = tf.reshape(images, [-1, 28, 28, 1]);
  const coarse = tf.layers.maxPooling2d(filters(pixels, 8, 0), 2);
  const coarser = tf.layers.maxPooling2d(filters(coarse, 16, 1), 2);
  return tf.layers.dense(tf.layers.flatten(coarser), 10, {
    kernelInitializer: tf.glorotUniform({ seed: seed + 2 }),
    name: 'logits',
  });
}

/** The placeholders that feed both models. */
export function digitInputs(): { images: Output<'float32'>; labels: Output<'int32'> } {
  return {
    images: tf.placeholder({ shape: [null, PIXELS], name: 'images' }),
    labels: tf.placeholder({ dtype: 'int32', shape: [null], name: 'labels' }),
  };
}
