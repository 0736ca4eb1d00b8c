/** `tf.summary`: what TensorBoard shows. */
export { FileWriter, type FileWriterOptions, type SessionStatus, type SummaryStep } from './file-writer.js';
export {
  histogram,
  type ImageSummaryOptions,
  image,
  merge,
  mergeAll,
  type SummaryOptions,
  scalar,
  text,
} from './ops.js';
