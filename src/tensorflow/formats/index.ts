/// <reference types="node" preserve="true" />
/**
 * `shoal/formats`: readers and writers of TensorFlow's files: TFRecord, tf.train.Example, event files of TensorBoard, and
 * tensor bundles (checkpoints). It does not load TensorFlow's library; its only native code is `@node-rs/crc32`.
 */
export type { LentBytes } from '../../base/bytes/lent-bytes.js';
export {
  CHECKPOINT_STATE_FILE,
  type CheckpointState,
  formatCheckpointState,
  parseCheckpointState,
} from './checkpoint-state/checkpoint-state.js';
export { type EventReadOptions, readEvents } from './events/event-reader.js';
export { EventFileWriter, type EventInput, type EventWriterOptions } from './events/event-writer.js';
export {
  decodeExample,
  decodeSequenceExample,
  type ExampleFeatures,
  type SequenceExample,
} from './example/decode.js';
export {
  encodeExample,
  encodeSequenceExample,
  type FeatureInputs,
  type FeatureListInputs,
} from './example/encode.js';
export type { FeatureInput, FeatureValue } from './example/features.js';
export { DirectoryReader, type RangeReader } from './range-reader.js';
export {
  type BundleIndex,
  type BundlePiece,
  type BundleTensor,
  mergeBundleIndexes,
} from './tensor-bundle/bundle-index.js';
export { BundleReader, type BundleReadOptions, type ByteTarget } from './tensor-bundle/bundle-reader.js';
export { readIndexFile, writeIndexFile } from './tensor-bundle/index-file.js';
export { dataFile, indexFile } from './tensor-bundle/naming.js';
export {
  BundleShardWriter,
  type ByteChunks,
  type ByteSink,
  type FinishedShard,
  type ShardTensor,
} from './tensor-bundle/shard-writer.js';
export type { Extent, TensorSlice } from './tensor-bundle/slice.js';
export type { Compression } from './tfrecord/compression.js';
export type { DecodedRecord, DecoderOptions } from './tfrecord/decoder.js';
export {
  readTFRecordBatches,
  readTFRecords,
  type TFRecordReadOptions,
  type TFRecordSource,
} from './tfrecord/reader.js';
export { type TFRecordWriteOptions, TFRecordWriter } from './tfrecord/writer.js';
