/** Words, or integers, by their position in a vocabulary: a list in the program, or the lines of a file. */
import { invalid } from '../../base/errors/errors.js';
import type { OrNull } from '../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../base/errors/option-names.js';
import type { LookupTable } from '../../tensorflow/lookup/table.js';
import { indexTableFromFile, indexTableFromTensor } from '../../tensorflow/lookup/vocabulary.js';
import type { DType } from '../../tensorflow/tensor/dtype.js';
import { Tensor } from '../../tensorflow/tensor/tensor.js';
import { type Features, varLenFeature } from '../input/dataset/parse-example.js';
import {
  checkFeatureDtype,
  checkKey,
  checkPositiveOption,
  checkStringOrInteger,
  isText,
  parsedType,
} from './check.js';
import { type CategoricalColumn, FeatureColumn, type IdsAndWeights } from './feature-column.js';
import type { FeatureTensors } from './feature-tensors.js';
import { countLines } from './vocabulary-file.js';

export interface VocabularyListOptions {
  /** The type of the feature, 'string' or one of integers; default: that of the list. */
  readonly dtype?: DType;
  /** The id of words outside the vocabulary; default: -1, they are ignored. Not with `numOovBuckets`. */
  readonly defaultValue?: number;
  /** How many more ids there are for words outside the vocabulary, chosen by hash; default: 0. */
  readonly numOovBuckets?: number;
}

export interface VocabularyFileOptions extends VocabularyListOptions {
  /** How many lines of the file to use; default: all, which are counted when the column is made. */
  readonly vocabularySize?: number;
}

const LIST: Names<VocabularyListOptions> = { dtype: true, defaultValue: true, numOovBuckets: true };
const FILE: Names<VocabularyFileOptions> = { ...LIST, vocabularySize: true };

/** Ids that are positions in a list. */
export function categoricalColumnWithVocabularyList(
  key: string,
  vocabularyList: readonly (string | number | bigint)[],
  given: OrNull<VocabularyListOptions> = {},
): VocabularyColumn {
  checkKey('categoricalColumnWithVocabularyList', key);
  const what = `The vocabulary of '${key}'`;
  const options = knownOptions(given, LIST, what);
  if (!Array.isArray(vocabularyList) || vocabularyList.length === 0)
    throw invalid(`${what} must be a list with at least one entry`);
  const words = [...vocabularyList] as readonly (string | number | bigint)[];
  const isWords = words.every((word) => typeof word === 'string');
  if (!isWords && !words.every((word) => typeof word === 'bigint' || Number.isSafeInteger(word)))
    throw invalid(`${what} must have strings only, or integers only`);
  const unique = new Set<string | bigint>();
  for (const word of words) {
    const entry = typeof word === 'string' ? word : BigInt(word);
    if (unique.has(entry)) throw invalid(`${what} has '${word}' twice`);
    unique.add(entry);
  }
  const dtype = options.dtype ?? (isWords ? 'string' : 'int64');
  checkStringOrInteger(what, dtype);
  if (isText(dtype) !== isWords)
    throw invalid(`${what} has ${isWords ? 'strings' : 'integers'}; the dtype of the column is ${dtype}`);
  const entries = isWords ? Tensor.of(words as string[]) : Tensor.of(words as bigint[], { dtype: 'int64' });
  return new VocabularyColumn(key, words.length, { ...options, dtype }, (ids, name) =>
    indexTableFromTensor(entries, { ...ids, name }),
  );
}

/**
 * Ids that are line numbers of a file, from 0. Every task that builds the graph reads the file, under the same path; an
 * exported model contains it.
 */
export function categoricalColumnWithVocabularyFile(
  key: string,
  vocabularyFile: string,
  given: OrNull<VocabularyFileOptions> = {},
): VocabularyColumn {
  checkKey('categoricalColumnWithVocabularyFile', key);
  const what = `The vocabulary of '${key}'`;
  const { vocabularySize, ...options } = knownOptions(given, FILE, what);
  if (typeof vocabularyFile !== 'string' || vocabularyFile === '')
    throw invalid(`${what} needs the path of a file`);
  if (vocabularyFile.endsWith('tfrecord.gz'))
    throw invalid(`${what} is a file of records, ${vocabularyFile}; it must be a text file`, {
      hint: 'Write the words to a file, one in each line.',
    });
  if (vocabularySize !== undefined) checkPositiveOption(what, 'vocabularySize', vocabularySize);
  const size = vocabularySize ?? countLines(what, vocabularyFile);
  if (size === 0) throw invalid(`${what} is empty: ${vocabularyFile}`);
  const { dtype = 'string' } = options;
  checkStringOrInteger(what, dtype);
  const keyDtype = isText(dtype) ? 'string' : 'int64';
  return new VocabularyColumn(key, size, { ...options, dtype }, (ids, name) =>
    indexTableFromFile(vocabularyFile, { ...ids, keyDtype, vocabSize: size, name }),
  );
}

type Ids = Pick<VocabularyListOptions, 'defaultValue' | 'numOovBuckets'>;
type MakeTable = (ids: Ids, name: string) => LookupTable<'int64'>;

export class VocabularyColumn extends FeatureColumn implements CategoricalColumn {
  readonly key: string;
  readonly dtype: DType;
  readonly numBuckets: number;
  readonly #ids: Ids;
  readonly #makeTable: MakeTable;

  /** @internal */
  constructor(
    key: string,
    size: number,
    options: VocabularyListOptions & { readonly dtype: DType },
    makeTable: MakeTable,
  ) {
    super();
    const { dtype, defaultValue = -1, numOovBuckets = 0 } = options;
    const what = `The vocabulary of '${key}'`;
    if (!Number.isSafeInteger(numOovBuckets) || numOovBuckets < 0)
      throw invalid(`${what}: numOovBuckets must be an integer of at least 0, it is ${numOovBuckets}`);
    if (!Number.isSafeInteger(defaultValue))
      throw invalid(`${what}: defaultValue must be an integer, it is ${defaultValue}`);
    if (numOovBuckets > 0 && defaultValue !== -1)
      throw invalid(`${what} has both defaultValue and numOovBuckets`, {
        hint: 'Words outside the vocabulary have one id, or those of the buckets.',
      });
    this.key = key;
    this.dtype = dtype;
    this.numBuckets = size + numOovBuckets;
    this.#ids = numOovBuckets > 0 ? { numOovBuckets } : { defaultValue };
    this.#makeTable = makeTable;
  }

  get name(): string {
    return this.key;
  }

  parseSpec(): Features {
    return { [this.key]: varLenFeature(parsedType(this.key, this.dtype)) };
  }

  /** @internal */
  idsAndWeights(features: FeatureTensors): IdsAndWeights {
    return features.once(this, () => {
      const feature = features.sparse(this.key, this.name);
      checkFeatureDtype(this.key, this.dtype, feature.dtype);
      const table = this.#makeTable(this.#ids, `${this.key}_lookup`);
      return { ids: table.lookup(feature) };
    });
  }
}
