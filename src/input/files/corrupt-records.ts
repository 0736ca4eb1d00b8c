/**
 * Corrupt TFRecord files. TensorFlow stops at a corrupt record and says at which byte, but not of which file;
 * `explainDataLoss` finds the file. To go on without such records, files are scanned before they are read.
 */
import { isShoalError, ShoalError } from '../../errors/errors.js';
import type { Compression } from '../../formats/tfrecord/compression.js';
import { FunctionGraph } from '../../graph/function.js';
import { currentGraph, Graph } from '../../graph/graph.js';
import * as raw from '../../ops/generated/index.js';
import { Session } from '../../session/session.js';
import { Tensor } from '../../tensor/tensor.js';
import { type CorruptPlace, type FileScan, type ScanOptions, scanFile } from './record-scan.js';

/** The collection of the TFRecord files that a graph reads. */
const RECORD_FILES = 'record_files';

interface RecordFiles {
  readonly names: readonly string[];
  /** undefined: names alone are known. */
  readonly compression: Compression | undefined;
}

/** Notes what a graph reads, so that an error can be explained. */
export function noteRecordFiles(files: RecordFiles, graph: Graph = currentGraph()): void {
  let outer = graph;
  while (outer instanceof FunctionGraph) outer = outer.outer;
  outer.addToCollection(RECORD_FILES, files);
}

export const isPattern = (name: string): boolean => /[*?[]/.test(name);

/** The files that names and patterns stand for, sorted, as TensorFlow would find them. */
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
  if (files.length === 0) throw new ShoalError('SHOAL_NOT_FOUND', `No files match ${names.join(', ')}`);
  return files;
}

/** What a scan found; `tf.data.tfRecord(scan)` reads the records that are whole. */
export interface TFRecordScan {
  readonly files: readonly FileScan[];
  readonly compression: Compression;
  /** How many records can be read. */
  readonly records: number;
  /** How many are left out: corrupt ones, and those of compressed files that lie behind one. */
  readonly skipped: number;
  readonly corrupt: readonly CorruptPlace[];
}

export interface ScanFilesOptions extends ScanOptions {
  /** 'stop' throws at the first file with a corrupt record; 'skip', the default, leaves such records out. */
  readonly onCorrupt?: 'stop' | 'skip' | undefined;
}

export const isScan = (source: unknown): source is TFRecordScan =>
  typeof source === 'object' && source !== null && 'files' in source && 'skipped' in source;

/**
 * Goes through all records of the files and checks them: one read of everything before the first step. A length
 * that is corrupt counts as one record, however much was lost until the next frame.
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
    hint: 'To leave corrupt records out: tf.data.tfRecord(await tf.data.scanTFRecords(files)).',
  });
}

/**
 * An error of a run, with the file and the offset if it is TensorFlow's about a corrupt record of a TFRecord file
 * that the graph reads; any other as it is. The files are scanned, on this machine.
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
  const told = /record at (\d+)/.exec(error.message)?.[1];
  let other: CorruptPlace | undefined;
  for (const compression of kinds) {
    for (const file of await matchFiles(names)) {
      const scan = await scanFile(file, { compression, signal: options.signal });
      // TensorFlow tells the byte of the frame, or that of the data behind its header of 12 bytes.
      const same = scan.corrupt.find(({ offset }) => told === String(offset) || told === String(offset + 12));
      if (same) return corruptError(same, error);
      other ??= scan.corrupt[0];
    }
  }
  return other ? corruptError(other, error) : error;
}
