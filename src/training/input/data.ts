/** The `tf.data` of `import { tf } from 'shoal'`: input pipelines made of TensorFlow's dataset ops. */

export { Dataset, type InterleaveOptions, type ShuffleOptions } from './dataset/dataset.js';
export {
  type ElementFor,
  type ElementTypes,
  type FeederLike,
  type Feeding,
  type GeneratorOptions,
  generator,
  type RecordFor,
  type RecordValue,
  type Source,
  type StopToken,
  startFeeders,
} from './dataset/generator.js';
export { DatasetIterator, type IteratorOptions } from './dataset/iterator.js';
export type { PaddedBatchOptions } from './dataset/padding.js';
export {
  type Feature,
  type Features,
  type FeatureType,
  type FixedLenFeature,
  type FixedLenSequenceFeature,
  fixedLenFeature,
  fixedLenSequenceFeature,
  type ParsedFeatures,
  parseExample,
  type VarLenFeature,
  varLenFeature,
} from './dataset/parse-example.js';
export type { Parallel, ParallelOptions } from './dataset/recipe.js';
export {
  fromTensorSlices,
  fromTensors,
  range,
  type SourceValues,
  type Zipped,
  zip,
} from './dataset/sources.js';
export type { DatasetElement } from './dataset/structure.js';
export { type ScanFilesOptions, scanTFRecords, type TFRecordScan } from './files/corrupt-records.js';
export {
  type Column,
  type Columns,
  type ColumnType,
  type CsvOptions,
  csv,
  type Row,
  type TypeOf,
} from './files/csv.js';
export {
  type FileReadOptions,
  type FileSource,
  type FilesOptions,
  type FixedLengthOptions,
  files,
  fixedLength,
  type TFRecordOptions,
  textLines,
  tfRecord,
} from './files/files.js';
export { type LibSvmOptions, type LibSvmRow, libSvm } from './files/lib-svm.js';
export type { CorruptPlace, FileScan, RecordRange, ScanOptions } from './files/record-scan.js';
export { type Parse, ShardedFiles, type ShardedFilesOptions, shards } from './leases/sharded-files.js';
export type { ShardOptions } from './leases/shards.js';
