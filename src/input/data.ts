/** The `tf.data` of `import { tf } from 'shoal'`: input pipelines made of TensorFlow's dataset ops. */

export {
  Dataset,
  type InterleaveOptions,
  type Parallel,
  type ParallelOptions,
  type ShuffleOptions,
} from './dataset/dataset.js';
export {
  type ElementTypes,
  Feeder,
  type Feeding,
  type GeneratorOptions,
  generator,
  INPUT_FEEDERS,
  startFeeders,
} from './dataset/generator.js';
export { DatasetIterator, type IteratorOptions } from './dataset/iterator.js';
export type { PaddedBatchOptions } from './dataset/padding.js';
export {
  type Feature,
  type Features,
  fixedLenFeature,
  fixedLenSequenceFeature,
  type ParsedFeatures,
  parseExample,
  varLenFeature,
} from './dataset/parse-example.js';
export { fromTensorSlices, fromTensors, range, type Values, zip } from './dataset/sources.js';
export {
  explainDataLoss,
  matchFiles,
  type ScanFilesOptions,
  scanTFRecords,
  type TFRecordScan,
} from './files/corrupt-records.js';
export { type Column, type ColumnType, type CsvOptions, csv } from './files/csv.js';
export {
  type FileSource,
  type FilesOptions,
  type FixedLengthOptions,
  files,
  fixedLength,
  type ReadOptions,
  type TFRecordOptions,
  textLines,
  tfRecord,
} from './files/files.js';
export { type LibSvmOptions, libSvm } from './files/lib-svm.js';
export type { CorruptPlace, FileScan, RecordRange } from './files/record-scan.js';
export { type PlanShardsOptions, planShards } from './leases/ledger-host.js';
export { ShardedFiles, type ShardedFilesOptions, shards } from './leases/sharded-files.js';
export { ShardBatches, ShardInput, ShardIterator, type ShardOptions } from './leases/shards.js';
