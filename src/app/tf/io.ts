/** `tf.io`: aliases of the readers and writers of records in `tf`, `tf.train` and `shoal/formats`. */
export { TFRecordWriter } from '../../tensorflow/formats/index.js';
export {
  fixedLenFeature as FixedLenFeature,
  fixedLenSequenceFeature as FixedLenSequenceFeature,
  parseExample,
  varLenFeature as VarLenFeature,
} from '../../training/input/dataset/parse-example.js';
export { matchFilenamesOnce } from '../../training/input/queues/queues.js';
export { writeGraph } from '../../training/train/index.js';
