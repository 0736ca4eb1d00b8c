/** `tf.lookup`: tables that map words to ids and back. */
export {
  IdTableWithHashBuckets,
  type Keys,
  type LookupResult,
  type LookupTable,
  StaticHashTable,
  type TableOptions,
} from './table.js';
export {
  type FileOptions,
  type IdOptions,
  type IndexTableOptions,
  indexTableFromFile,
  indexTableFromTensor,
  indexToStringTableFromFile,
  indexToStringTableFromTensor,
  type StringOptions,
  TextFileIndex,
  type VocabularyFile,
} from './vocabulary.js';
