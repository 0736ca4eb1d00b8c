/** Datasets of file contents. TensorFlow reads the files from the worker's disk. */

import { invalid } from '../../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../../base/errors/null-options.js';
import type { Compression } from '../../../tensorflow/formats/tfrecord/compression.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { asOutput } from '../../../tensorflow/ops/build.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { Dataset, int64 } from '../dataset/dataset.js';
import type { Parallel, Recipe } from '../dataset/recipe.js';
import type {
  ByteRange,
  RangeElement,
  RangeFormat,
  RangeScanOptions,
  ScannedRanges,
} from '../dataset/record-ranges.js';
import { building, fromTensorSlices } from '../dataset/sources.js';
import { leavesOf, type Spec } from '../dataset/structure.js';
import { corruptError, isPattern, isScan, noteRecordFiles, type TFRecordScan } from './corrupt-records.js';
import type { CsvFormat } from './csv-rows.js';
import { noteInputFiles } from './input-errors.js';
import { equalRecords, linesOf, textOf, vectorOf } from './record-files.js';
import { scanFile } from './record-scan.js';
import { COMPRESSED, scanFixed, scanLines } from './text-scan.js';

/** Names (patterns if they contain `*`, `?` or `[`), or names computed in the graph. */
export type FileSource = string | readonly string[] | Output<'string'> | Dataset<Output<'string'>>;

export interface FilesOptions {
  /** Whether to shuffle the files for each iteration; default: false, sorted by name. */
  readonly shuffle?: boolean;
  /** The seed of the order; default: the graph's seed, else random. */
  readonly seed?: number;
}

export interface FileReadOptions {
  /** The compression of the files; default: 'none'. */
  readonly compression?: Compression;
  /** The size of the read buffer in bytes; default: 256 KiB. */
  readonly bufferSize?: number;
  /** How many files are read concurrently; default: one after the other. */
  readonly parallelFiles?: Parallel;
}

const NAMES = 'it contains file names, not records: use tf.data.tfRecord(files) or similar';
const STRING: Spec = { kind: 'tensor', dtype: 'string', shape: [] };
const DEFAULT_BUFFER = 256 << 10;

/** The names of the matching files. Iteration fails if none matches. */
export function files(
  source: string | readonly string[],
  given: OrNull<FilesOptions> = {},
): Dataset<Output<'string'>> {
  const options = withoutNull<FilesOptions>(given);
  const names = typeof source === 'string' ? [source] : [...source];
  if (names.length === 0) throw invalid('No file is named');
  return building(() => {
    noteRecordFiles({ names, compression: undefined });
    const matches = fileNames(names);
    const isShuffled = options.shuffle ?? false;
    const recipe = { files: { why: NAMES, names, isShuffled }, changes: [] };
    const dataset = new Dataset<Output<'string'>>(
      raw.tensorSliceDataset([matches], { outputShapes: [[]], isFiles: true }),
      STRING,
      recipe,
    );
    if (!isShuffled) return dataset;
    const count = raw.size(matches, { outType: 'int64' }) as Output<'int64'>;
    const seeded = options.seed === undefined ? {} : { seed: options.seed };
    return withRecipe(dataset.shuffle(count, seeded), recipe);
  });
}

/** A vector of names, with patterns replaced by the sorted matches. */
export function fileNames(names: readonly string[]): Output<'string'> {
  const vector = Tensor.of([...names], { dtype: 'string', shape: [names.length] });
  if (!names.some(isPattern)) return asOutput(vector) as Output<'string'>;
  const matches = raw.matchingFiles(vector);
  const found = raw.greater(raw.size(matches), 0);
  const check = raw.assert(found, [asOutput(`No files match ${names.join(', ')}`)], { summarize: 1 });
  return raw.identity(matches, { controlInputs: [check] }) as Output<'string'>;
}

/** A dataset of the contents of files, read one after the other or concurrently. */
export function readFiles<T>(
  source: FileSource,
  read: (files: Output<'string'>) => Dataset<T>,
  parallel: Parallel | undefined,
  format: RangeFormat<Dataset<T>>,
  csv?: CsvFormat,
): Dataset<T> {
  return building(() => {
    const names = namesIn(source)?.names;
    if (names) noteInputFiles({ names, scan: format.scan, csv });
    return withRecipe(readAll(source, read, parallel), recipeOf(source, format));
  });
}

export const withRecipe = <T>({ variant, spec }: Dataset<T>, recipe: Recipe<Dataset>): Dataset<T> =>
  new Dataset<T>(variant, spec, recipe);

/** The recipe of the records of these files, as far as it is known before the graph runs. */
export function recipeOf(source: FileSource, format: RangeFormat<Dataset>): Recipe<Dataset> {
  const named = namesIn(source);
  const isRemote = named?.names.some((name) => /^[a-z][a-z0-9+.-]+:\/\//i.test(name));
  if (!named) return { files: { why: 'the graph computes its file names' }, changes: [] };
  if (isRemote) return { files: { why: 'its files are not on a local disk' }, changes: [] };
  return { files: { ...format, ...named }, changes: [] };
}

function namesIn(source: FileSource): { names: readonly string[]; isShuffled: boolean } | undefined {
  if (typeof source === 'string') return { names: [source], isShuffled: false };
  if (Array.isArray(source)) return { names: source as readonly string[], isShuffled: false };
  if (!(source instanceof Dataset)) return undefined;
  const { files, changes } = source.recipe ?? {};
  if (!files || !('names' in files) || changes?.some(({ kind }) => kind !== 'prefetch')) return undefined;
  return { names: files.names as readonly string[], isShuffled: files.isShuffled ?? false };
}

function readAll<T>(
  source: FileSource,
  read: (files: Output<'string'>) => Dataset<T>,
  parallel: Parallel | undefined,
): Dataset<T> {
  return building(() => {
    const names = source instanceof Dataset ? undefined : toNames(source);
    if (names && parallel === undefined) return read(names);
    const dataset = names
      ? new Dataset<Output<'string'>>(
          raw.tensorSliceDataset([names], { outputShapes: [[]], isFiles: true }),
          STRING,
        )
      : (source as Dataset<Output<'string'>>);
    const [leaf] = leavesOf(dataset.spec);
    if (leaf?.dtype !== 'string') throw invalid(`${dataset} does not contain file names`);
    if (parallel === undefined) return dataset.flatMap(read);
    return dataset.interleave(read, { cycle: parallel, parallel });
  });
}

function toNames(source: string | readonly string[] | Output<'string'>): Output<'string'> {
  if (typeof source === 'string') return fileNames([source]);
  if (!Array.isArray(source)) return asOutput(source as Output<'string'>, 'string');
  if (source.length === 0) throw invalid('No file is named');
  return fileNames(source);
}

/** The compression name of TensorFlow's reader ops. */
export const compressionName = (compression: Compression = 'none'): string =>
  compression === 'none' ? '' : compression.toUpperCase();

export const bufferSize = (options: FileReadOptions) => int64(options.bufferSize ?? DEFAULT_BUFFER);

/** The lines of text files, without line ends. */
export function textLines(
  source: FileSource,
  given: OrNull<FileReadOptions> = {},
): Dataset<Output<'string'>> {
  const options = withoutNull<FileReadOptions>(given);
  return readFiles(source, (names) => linesIn(names, options), options.parallelFiles, {
    read: (range) => linesOfRange(range, options),
    scan: (file, scan) => scanLines(file, { ...scan, compression: options.compression }),
  });
}

const linesIn = (names: Output<'string'>, options: FileReadOptions): Dataset<Output<'string'>> =>
  new Dataset(raw.textLineDataset(names, compressionName(options.compression), bufferSize(options)), STRING);

/** The lines of a range, followed by an empty one if the last ends with a newline. */
export function linesOfRange(range: ByteRange, options: FileReadOptions): Dataset<Output<'string'>> {
  const names = vectorOf(range.file);
  if (!isUncompressed(options)) return linesIn(names, options);
  return textOf(names, range, bufferSize(options)).flatMap((text) =>
    fromTensorSlices(linesOf(text)),
  ) as unknown as Dataset<Output<'string'>>;
}

export const isUncompressed = ({ compression = 'none' }: FileReadOptions): boolean => compression === 'none';

export interface FixedLengthOptions extends FileReadOptions {
  readonly recordBytes: number;
  /** Bytes to skip at the beginning of each file; default: 0. */
  readonly headerBytes?: number;
  /** Bytes to skip at its end; default: 0. */
  readonly footerBytes?: number;
}

/** The records of files with records of fixed length, as strings. */
export function fixedLength(
  source: FileSource,
  given: OrNull<FixedLengthOptions>,
): Dataset<Output<'string'>> {
  const options = withoutNull<FixedLengthOptions>(given);
  const { recordBytes, headerBytes = 0, footerBytes = 0 } = options;
  if (!Number.isSafeInteger(recordBytes) || recordBytes < 1)
    throw invalid(`recordBytes must be an integer of at least 1; got ${recordBytes}`);
  const read = (names: Output<'string'>): Dataset<Output<'string'>> =>
    new Dataset(
      raw.fixedLengthRecordDatasetV2(
        names,
        int64(headerBytes),
        int64(recordBytes),
        int64(footerBytes),
        bufferSize(options),
        compressionName(options.compression),
      ),
      STRING,
    );
  return readFiles(source, read, options.parallelFiles, {
    read: (range) => {
      const names = vectorOf(range.file);
      if (!isUncompressed(options)) return read(names);
      return equalRecords(names, range, recordBytes, bufferSize(options));
    },
    scan: (file, scan) =>
      scanFixed(file, { ...scan, compression: options.compression, recordBytes, headerBytes, footerBytes }),
  });
}

export interface TFRecordOptions extends FileReadOptions {}

/**
 * The records of TFRecord files, as strings. A corrupt record fails the run that reads it. Given a scan of the files
 * (`await tf.data.scanTFRecords(files)`), corrupt records are skipped.
 */
export function tfRecord(
  source: FileSource | TFRecordScan,
  given: OrNull<TFRecordOptions> = {},
): Dataset<Output<'string'>> {
  const options = withoutNull<TFRecordOptions>(given);
  if (isScan(source)) return intactRecords(source, options);
  return building(() => {
    const names = typeof source === 'string' ? [source] : Array.isArray(source) ? (source as string[]) : [];
    noteRecordFiles({ names, compression: options.compression ?? 'none' });
    return readFiles(source, (one) => recordsOf(one, options), options.parallelFiles, {
      read: (range) => recordsOfRange(range, options),
      scan: (file, scan) => scanRecords(file, { ...scan, compression: options.compression }),
    });
  });
}

/** The ranges of a TFRecord file, found by the record lengths only. */
async function scanRecords(
  file: string,
  { rangeRecords, compression = 'none', signal }: RangeScanOptions & Pick<FileReadOptions, 'compression'>,
): Promise<ScannedRanges> {
  const most = compression === 'none' ? { rangeRecords } : {};
  const { ranges, corrupt } = await scanFile(file, { compression, verify: false, signal, ...most });
  const [first] = corrupt;
  if (first) throw corruptError(first);
  return compression === 'none' ? { ranges } : { ranges, whole: COMPRESSED };
}

/** The intact records of a scan. */
function intactRecords(scan: TFRecordScan, options: TFRecordOptions): Dataset<Output<'string'>> {
  const { compression } = scan;
  if (options.compression !== undefined && options.compression !== compression)
    throw invalid(`The files were scanned with compression '${compression}', not '${options.compression}'`);
  const ranges = scan.files.flatMap((file) => file.ranges);
  if (ranges.length === 0) throw invalid('The scan found no intact record');
  const read = { ...options, compression };
  const places = fromTensorSlices({
    file: Tensor.of(ranges.map(({ file }) => file)),
    offset: BigInt64Array.from(ranges, ({ offset }) => BigInt(offset)),
    records: BigInt64Array.from(ranges, ({ records }) => BigInt(records)),
  }) as unknown as Dataset<RangeElement>;
  const recordsIn = (range: RangeElement) => recordsOfRange(range, read);
  const parallel = options.parallelFiles;
  return parallel === undefined
    ? places.flatMap(recordsIn)
    : places.interleave(recordsIn, { cycle: parallel, parallel });
}

/** The records of one range. Compressed files can only be read from the beginning. */
export function recordsOfRange(range: RangeElement, options: TFRecordOptions): Dataset<Output<'string'>> {
  const offsets = isUncompressed(options) ? vectorOf(range.offset) : undefined;
  return recordsOf(vectorOf(range.file), options, offsets).take(range.records);
}

/** The records of these files, each from its offset; offsets only work inside a dataset function. */
export function recordsOf(
  names: Output<'string'>,
  options: TFRecordOptions,
  offsets?: Output<'int64'>,
): Dataset<Output<'string'>> {
  const compression = compressionName(options.compression);
  const buffer = bufferSize(options);
  // TensorFlow fails to serialize the V2 op when it optimizes a pipeline; it does not optimize functions.
  const variant = offsets
    ? raw.tfRecordDatasetV2(names, compression, buffer, offsets)
    : raw.tfRecordDataset(names, compression, buffer);
  return new Dataset(variant, STRING);
}
