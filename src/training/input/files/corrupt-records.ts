/**
 * Corrupt TFRecord files. TensorFlow stops at a corrupt record and reports the byte offset, but not the file;
 * `explainDataLoss` finds the file. To skip such records, scan the files before reading them.
 */
import { isShoalError, ShoalError } from '../../../base/errors/errors.js';
import type { Compression } from '../../../tensorflow/formats/tfrecord/compression.js';
import { FunctionGraph } from '../../../tensorflow/graph/function.js';
import { currentGraph, Graph } from '../../../tensorflow/graph/graph.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { Session } from '../../../tensorflow/session/session.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { type CorruptPlace, type FileScan, type ScanOptions, scanFile } from './record-scan.js';

/** The collection of the TFRecord files that a graph reads. */
const RECORD_FILES = 'record_files';

interface RecordFiles {
  readonly names: readonly string[];
  /** undefined: unknown. */
  readonly compression: Compression | undefined;
}

/** Records which files a graph reads, to explain errors. */
export function noteRecordFiles(files: RecordFiles, graph: Graph = currentGraph()): void {
  let outer = graph;
  while (outer instanceof FunctionGraph) outer = outer.outer;
  outer.addToCollection(RECORD_FILES, files);
}

export const isPattern = (name: string): boolean => /[*?[]/.test(name);

/** The error of patterns without files. */
export const noFiles = (patterns: string, cause?: unknown): ShoalError =>
  new ShoalError('SHOAL_NOT_FOUND', `No files match ${patterns}`, {
    cause,
    hint: 'Relative paths begin in the directory in which the task was started.',
  });

/** Expands names and patterns to files, sorted, as TensorFlow does. */
export async function matchFiles(source: string | readonly string[]): Promise<string[]> {
  const names = typeof source === 'string' ? [source] : [...source];
  if (!names.some(isPattern)) return names;
  using graph = new Graph();
  const matches = graph.asDefault(() =>
    raw.matchingFiles(Tensor.of(names, { dtype: 'string', shape: [names.length] })),
  );
  await using session = Session.open({ graph });
  using found = await session.run(matches);
  const files = found.toArray() as string[];
  if (files.length === 0) throw noFiles(names.join(', '));
  return files;
}

/** The result of a scan; `tf.data.tfRecord(scan)` reads the intact records. */
export interface TFRecordScan {
  readonly files: readonly FileScan[];
  readonly compression: Compression;
  /** How many records can be read. */
  readonly records: number;
  /** How many are skipped: corrupt ones, and those behind one in a compressed file. */
  readonly skipped: number;
  readonly corrupt: readonly CorruptPlace[];
}

export interface ScanFilesOptions extends ScanOptions {
  /** 'stop' throws at the first file with a corrupt record; 'skip' omits such records. Default: 'skip'. */
  readonly onCorrupt?: 'stop' | 'skip';
}

export const isScan = (source: unknown): source is TFRecordScan =>
  typeof source === 'object' && source !== null && 'files' in source && 'skipped' in source;

/**
 * Reads and checks all records of the files. A corrupt length counts as one record, however much is lost until the next
 * frame.
 */
export async function scanTFRecords(
  source: string | readonly string[],
  options: ScanFilesOptions = {},
): Promise<TFRecordScan> {
  const files: FileScan[] = [];
  for (const file of await matchFiles(source)) {
    const scan = await scanFile(file, options);
    const [first] = scan.corrupt;
    if (first && options.onCorrupt === 'stop') throw corruptError(first);
    files.push(scan);
  }
  const corrupt = files.flatMap((scan) => scan.corrupt);
  const sum = (count: (scan: FileScan) => number) => files.reduce((total, scan) => total + count(scan), 0);
  return {
    files,
    compression: options.compression ?? 'none',
    records: sum(({ records }) => records),
    skipped: corrupt.length + sum(({ unreachable }) => unreachable),
    corrupt,
  };
}

export function corruptError({ file, offset, reason }: CorruptPlace, cause?: unknown): ShoalError {
  const details = isShoalError(cause) ? { op: cause.op, task: cause.task, device: cause.device } : {};
  return new ShoalError('SHOAL_CORRUPT', `${file}: ${reason}, at byte ${offset}`, {
    ...details,
    cause,
    hint: 'To skip corrupt records: tf.data.tfRecord(await tf.data.scanTFRecords(files)).',
  });
}

/**
 * Adds the file and offset to TensorFlow's error about a corrupt record of a TFRecord file that the graph reads;
 * returns other errors unchanged. Scans the files on this machine.
 */
export async function explainDataLoss(
  error: unknown,
  options: { readonly graph?: Graph; readonly signal?: AbortSignal } = {},
): Promise<unknown> {
  if (!isShoalError(error, 'SHOAL_TF_DATA_LOSS')) return error;
  const noted = (options.graph ?? currentGraph()).getCollection<RecordFiles>(RECORD_FILES);
  const names = [...new Set(noted.flatMap((one) => one.names))];
  if (names.length === 0) return error;
  const kinds = new Set(noted.flatMap(({ compression }) => (compression ? [compression] : [])));
  const reported = /record at (\d+)/.exec(error.message)?.[1];
  let other: CorruptPlace | undefined;
  for (const compression of kinds) {
    for (const file of await matchFiles(names)) {
      const scan = await scanFile(file, { compression, signal: options.signal });
      // TensorFlow reports the offset of the frame, or of the data behind its 12-byte header.
      const same = scan.corrupt.find(({ offset }) =>
        [offset, offset + 12].some((at) => reported === String(at)),
      );
      if (same) return corruptError(same, error);
      other ??= scan.corrupt[0];
    }
  }
  return other ? corruptError(other, error) : error;
}
