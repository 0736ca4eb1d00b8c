/** `tf.savedModel`: the names of `shoal/saved-model`, with TensorFlow 1's name of the builder. */

export * from '../../training/saved-model/index.js';
export { SavedModelBuilder as Builder } from '../../training/saved-model/writing/builder.js';
