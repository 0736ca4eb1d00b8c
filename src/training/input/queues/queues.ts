/** The classic queue input: what TensorFlow 1 has under tf.train and tf, by the same names. */
export {
  fifoQueue,
  paddingFifoQueue,
  Queue,
  type QueueOptions,
  type RandomShuffleQueueOptions,
  randomShuffleQueue,
} from './queue.js';
export {
  batch,
  type DynamicBatchOptions,
  limitEpochs,
  matchFilenamesOnce,
  type PrefetchQueueOptions,
  prefetchQueue,
  type QueueBatchOptions,
  type ShuffleBatchOptions,
  type StringInputProducerOptions,
  shuffleBatch,
  stringInputProducer,
} from './queue-input.js';
export {
  addQueueRunner,
  type LoopCoordinator,
  QueueRunner,
  type QueueRunnerParts,
} from './queue-runner.js';
export {
  type Reader,
  type ReaderOptions,
  TextLineReader,
  type TextLineReaderOptions,
  TFRecordReader,
  type TFRecordReaderOptions,
  WholeFileReader,
} from './readers.js';
