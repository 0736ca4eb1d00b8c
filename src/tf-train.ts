/** The `tf.train` of `import { tf } from 'shoal'`: optimizers, and TensorFlow 1's queue input. */
export * from './input/queues/queues.js';
export * from './optimizers/index.js';
