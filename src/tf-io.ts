/** `tf.io`: aliases of the readers and writers of records in `tf`, `tf.train` and `shoal/formats`. */
export { TFRecordWriter } from './formats/index.js';
export {
  fixedLenFeature as FixedLenFeature,
  fixedLenSequenceFeature as FixedLenSequenceFeature,
  parseExample,
  varLenFeature as VarLenFeature,
} from './input/dataset/parse-example.js';
export { matchFilenamesOnce } from './input/queues/queues.js';
export { writeGraph } from './train/index.js';
