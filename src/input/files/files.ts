/** Datasets of what is in files. Files are read by TensorFlow, on the worker's own disk. */
import { invalid } from '../../errors/errors.js';
import type { Compression } from '../../formats/tfrecord/compression.js';
import type { Output } from '../../graph/operation.js';
import { asOutput } from '../../ops/build.js';
import * as raw from '../../ops/generated/index.js';
import { Tensor } from '../../tensor/tensor.js';
import { Dataset, int64, type Parallel } from '../dataset/dataset.js';
import type { Recipe } from '../dataset/recipe.js';
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
import { equalRecords, linesOf, textOf, vectorOf } from './record-files.js';
import { scanFile } from './record-scan.js';
import { COMPRESSED, scanFixed, scanLines } from './text-scan.js';

/** Names, of which those with `*`, `?` or `[` are patterns; or names made in the graph. */
export type FileSource = string | readonly string[] | Output<'string'> | Dataset<Output<'string'>>;

export interface FilesOptions {
  /** In another order each time; by name otherwise. */
  readonly shuffle?: boolean | undefined;
  readonly seed?: number | undefined;
}

export interface ReadOptions {
  readonly compression?: Compression | undefined;
  /** The size of the read buffer, in bytes. */
  readonly bufferSize?: number | undefined;
  /** How many files are read at once; one after the other when left out. */
  readonly parallelFiles?: Parallel | undefined;
}

const NAMES = 'it is made of names of files, not of records: tf.data.tfRecord(files) and its like are';
const STRING: Spec = { kind: 'tensor', dtype: 'string', shape: [] };
const DEFAULT_BUFFER = 256 << 10;

/** The names of the files that match; an error when the dataset is started and none does. */
export function files(
  source: string | readonly string[],
  options: FilesOptions = {},
): Dataset<Output<'string'>> {
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

/** A vector of names, patterns replaced by what they match, sorted. */
export function fileNames(names: readonly string[]): Output<'string'> {
  const vector = Tensor.of([...names], { dtype: 'string', shape: [names.length] });
  if (!names.some(isPattern)) return asOutput(vector) as Output<'string'>;
  const matches = raw.matchingFiles(vector);
  const found = raw.greater(raw.size(matches), 0);
  const check = raw.assert(found, [asOutput(`No files match ${names.join(', ')}`)], { summarize: 1 });
  return raw.identity(matches, { controlInputs: [check] }) as Output<'string'>;
}

/** A dataset of the contents of each file, one file after the other or several at once. */
export function readFiles<T>(
  source: FileSource,
  read: (files: Output<'string'>) => Dataset<T>,
  parallel: Parallel | undefined,
  format: RangeFormat<T>,
): Dataset<T> {
  return withRecipe(readAll(source, read, parallel), recipeOf(source, format));
}

export const withRecipe = <T>({ variant, spec }: Dataset<T>, recipe: Recipe): Dataset<T> =>
  new Dataset<T>(variant, spec, recipe);

/** How the records of these files are made, as far as it is known before the graph runs. */
export function recipeOf(source: FileSource, format: RangeFormat): Recipe {
  const named = namesIn(source);
  const isRemote = named?.names.some((name) => /^[a-z][a-z0-9+.-]+:\/\//i.test(name));
  if (!named) return { files: { why: 'the names of its files are made in the graph' }, changes: [] };
  if (isRemote) return { files: { why: 'its files are on no disk' }, changes: [] };
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
    if (leaf?.dtype !== 'string') throw invalid(`${dataset} does not hold the names of files`);
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

/** As TensorFlow's reading ops want it. */
export const compressionName = (compression: Compression = 'none'): string =>
  compression === 'none' ? '' : compression.toUpperCase();

export const bufferSize = (options: ReadOptions) => int64(options.bufferSize ?? DEFAULT_BUFFER);

/** The lines of text files, without their ends. */
export function textLines(source: FileSource, options: ReadOptions = {}): Dataset<Output<'string'>> {
  return readFiles(source, (names) => linesIn(names, options), options.parallelFiles, {
    read: (range) => linesOfRange(range, options),
    scan: (file, scan) => scanLines(file, { ...scan, compression: options.compression }),
  });
}

const linesIn = (names: Output<'string'>, options: ReadOptions): Dataset<Output<'string'>> =>
  new Dataset(raw.textLineDataset(names, compressionName(options.compression), bufferSize(options)), STRING);

/** The lines of a range, and an empty one behind them where the last has an end. */
export function linesOfRange(range: ByteRange, options: ReadOptions): Dataset<Output<'string'>> {
  const names = vectorOf(range.file);
  if (!isPlain(options)) return linesIn(names, options);
  return textOf(names, range, bufferSize(options)).flatMap((text) =>
    fromTensorSlices(linesOf(text)),
  ) as unknown as Dataset<Output<'string'>>;
}

export const isPlain = ({ compression = 'none' }: ReadOptions): boolean => compression === 'none';

export interface FixedLengthOptions extends ReadOptions {
  readonly recordBytes: number;
  /** Bytes to leave out at the beginning of each file. */
  readonly headerBytes?: number | undefined;
  /** Bytes to leave out at its end. */
  readonly footerBytes?: number | undefined;
}

/** The records of files in which all records have the same length, as strings. */
export function fixedLength(source: FileSource, options: FixedLengthOptions): Dataset<Output<'string'>> {
  const { recordBytes, headerBytes = 0, footerBytes = 0 } = options;
  if (!Number.isSafeInteger(recordBytes) || recordBytes < 1)
    throw invalid(`recordBytes must be a whole number from 1, it is ${recordBytes}`);
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
      if (!isPlain(options)) return read(names);
      return equalRecords(names, range, recordBytes, bufferSize(options));
    },
    scan: (file, scan) =>
      scanFixed(file, { ...scan, compression: options.compression, recordBytes, headerBytes, footerBytes }),
  });
}

export interface TFRecordOptions extends ReadOptions {}

/**
 * The records of TFRecord files, as strings. A corrupt record stops the run that meets it; given a scan of the
 * files (`await tf.data.scanTFRecords(files)`), such records are left out.
 */
export function tfRecord(
  source: FileSource | TFRecordScan,
  options: TFRecordOptions = {},
): Dataset<Output<'string'>> {
  if (isScan(source)) return wholeRecords(source, options);
  return building(() => {
    const names = typeof source === 'string' ? [source] : Array.isArray(source) ? (source as string[]) : [];
    noteRecordFiles({ names, compression: options.compression ?? 'none' });
    return readFiles(source, (one) => recordsOf(one, options), options.parallelFiles, {
      read: (range) => recordsOfRange(range, options),
      scan: (file, scan) => scanRecords(file, { ...scan, compression: options.compression }),
    });
  });
}

/** The ranges of a TFRecord file, of which lengths alone are looked at. */
async function scanRecords(
  file: string,
  { rangeRecords, compression = 'none', signal }: RangeScanOptions & Pick<ReadOptions, 'compression'>,
): Promise<ScannedRanges> {
  const most = compression === 'none' ? { rangeRecords } : {};
  const { ranges, corrupt } = await scanFile(file, { compression, verify: false, signal, ...most });
  const [first] = corrupt;
  if (first) throw corruptError(first);
  return compression === 'none' ? { ranges } : { ranges, whole: COMPRESSED };
}

/** The records that a scan found whole. */
function wholeRecords(scan: TFRecordScan, options: TFRecordOptions): Dataset<Output<'string'>> {
  const { compression } = scan;
  if (options.compression !== undefined && options.compression !== compression)
    throw invalid(`The files were scanned as ${compression}, they are to be read as ${options.compression}`);
  const ranges = scan.files.flatMap((file) => file.ranges);
  if (ranges.length === 0) throw invalid('The scan found no record that is whole');
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

/** The records of one range. Compressed files can be read from their beginning only. */
export function recordsOfRange(range: RangeElement, options: TFRecordOptions): Dataset<Output<'string'>> {
  const offsets = isPlain(options) ? vectorOf(range.offset) : undefined;
  return recordsOf(vectorOf(range.file), options, offsets).take(range.records);
}

/** The records of these very files; each from its offset on, which only works in a function of a dataset. */
export function recordsOf(
  names: Output<'string'>,
  options: TFRecordOptions,
  offsets?: Output<'int64'>,
): Dataset<Output<'string'>> {
  const compression = compressionName(options.compression);
  const buffer = bufferSize(options);
  // TensorFlow fails to write the second version down when it optimizes a pipeline; functions it leaves alone.
  const variant = offsets
    ? raw.tfRecordDatasetV2(names, compression, buffer, offsets)
    : raw.tfRecordDataset(names, compression, buffer);
  return new Dataset(variant, STRING);
}
