/** The `tf.data` of `import { tf } from 'shoal'`: input pipelines made of TensorFlow's dataset ops. */

export {
  explainDataLoss,
  matchFiles,
  type ScanFilesOptions,
  scanTFRecords,
  type TFRecordScan,
} from './corrupt-records.js';
export { type Column, type ColumnType, type CsvOptions, csv } from './csv.js';
export {
  Dataset,
  type InterleaveOptions,
  type Parallel,
  type ParallelOptions,
  type ShuffleOptions,
} from './dataset.js';
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
} from './files.js';
export {
  type ElementTypes,
  Feeder,
  type Feeding,
  type GeneratorOptions,
  generator,
  INPUT_FEEDERS,
  startFeeders,
} from './generator.js';
export { DatasetIterator, type IteratorOptions } from './iterator.js';
export { type PlanShardsOptions, planShards } from './ledger-host.js';
export { type LibSvmOptions, libSvm } from './lib-svm.js';
export type { PaddedBatchOptions } from './padding.js';
export {
  type Feature,
  type Features,
  fixedLenFeature,
  fixedLenSequenceFeature,
  type ParsedFeatures,
  parseExample,
  varLenFeature,
} from './parse-example.js';
export type { CorruptPlace, FileScan, RecordRange } from './record-scan.js';
export { ShardedFiles, type ShardedFilesOptions, shards } from './sharded-files.js';
export { ShardBatches, ShardInput, ShardIterator, type ShardOptions } from './shards.js';
export { fromTensorSlices, fromTensors, range, type Values, zip } from './sources.js';
