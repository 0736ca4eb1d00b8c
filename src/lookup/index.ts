/** `tf.lookup`: tables that map words to ids and back. */
export { IdTableWithHashBuckets, type LookupTable, StaticHashTable } from './table.js';
export {
  type FileOptions,
  type IndexTableOptions,
  indexTableFromFile,
  indexTableFromTensor,
  indexToStringTableFromFile,
  indexToStringTableFromTensor,
  TextFileIndex,
  type VocabularyFile,
} from './vocabulary.js';
