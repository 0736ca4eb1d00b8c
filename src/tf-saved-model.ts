/** `tf.savedModel`: the names of `shoal/saved-model`, with TensorFlow 1's name of the builder. */
export { SavedModelBuilder as Builder } from './saved-model/builder.js';
export * from './saved-model/index.js';
