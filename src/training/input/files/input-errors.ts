/**
 * Errors about input files in the words of the user's program: which file, which line. TensorFlow names neither. The
 * errors are the same whether TensorFlow reads the files of one process or the chief scans them for a cluster.
 */
import { invalid, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import { FunctionGraph } from '../../../tensorflow/graph/function.js';
import { currentGraph, type Graph } from '../../../tensorflow/graph/graph.js';
import type { RangeFormat } from '../dataset/record-ranges.js';
import { explainDataLoss, matchFiles, noFiles } from './corrupt-records.js';
import { type BadRow, type CsvFormat, findBadRow } from './csv-rows.js';
import { unreadable } from './record-scan.js';

/** The collection of the files that a graph reads. */
const INPUT_FILES = 'input_files';

interface InputFiles extends Pick<RangeFormat<unknown>, 'scan'> {
  readonly names: readonly string[];
  /** Set for CSV files. */
  readonly csv?: CsvFormat;
}

/** Records which files a graph reads. */
export function noteInputFiles(files: InputFiles): void {
  let graph: Graph = currentGraph();
  while (graph instanceof FunctionGraph) graph = graph.outer;
  graph.addToCollection(INPUT_FILES, files);
}

const inputFiles = (graph: Graph): readonly InputFiles[] => graph.getCollection<InputFiles>(INPUT_FILES);

export const noRecords = (names: readonly string[]): ShoalError =>
  invalid(`No records found in ${names.join(', ')}`, {
    hint: 'The files are empty, or have only a header: check how they were written.',
  });

/** The error of an input that ended before its first batch; undefined unless it reads files and none has a record. */
export async function endedAtOnce(graph: Graph, signal?: AbortSignal): Promise<ShoalError | undefined> {
  const read = inputFiles(graph);
  for (const { names, scan } of read) {
    for (const file of await matchFiles(names)) {
      const { ranges } = await scan(file, { rangeRecords: Number.MAX_SAFE_INTEGER, signal });
      if (ranges.length > 0) return undefined;
    }
  }
  const all = new Set(read.flatMap(({ names }) => names));
  return all.size === 0 ? undefined : noRecords([...all]);
}

export function badRow(file: string, { line, reason }: BadRow, cause?: unknown): ShoalError {
  return new ShoalError('SHOAL_CORRUPT', `${file}, line ${line}: ${reason}`, {
    cause,
    hint: "Correct the line. A column whose fields may be empty needs a default: { dtype: 'float32', default: 0 }.",
  });
}

/** How long the files are searched for the reason of an error. */
const SEARCH_MS = 60_000;

interface Explained {
  readonly graph: Graph;
  readonly signal?: AbortSignal;
}

/**
 * Returns an error that names the file, if a file is the reason and is found in time; otherwise the error itself. Reads
 * files on this machine.
 */
export async function explainInputError(
  error: unknown,
  { graph, signal, searchMs = SEARCH_MS }: Explained & { readonly searchMs?: number },
): Promise<unknown> {
  const late = AbortSignal.timeout(searchMs);
  try {
    return await explain(error, { graph, signal: signal ? AbortSignal.any([signal, late]) : late });
  } catch (failure) {
    if (late.aborted && isShoalError(failure, 'SHOAL_ABORTED')) return error;
    throw failure;
  }
}

async function explain(error: unknown, { graph, signal }: Explained): Promise<unknown> {
  if (!isShoalError(error)) return error;
  const pattern = /assertion failed: \[No files match (.*?)\]/s.exec(error.message)?.[1];
  if (pattern !== undefined) return noFiles(pattern, error);
  if (isShoalError(error, 'SHOAL_TF_NOT_FOUND')) {
    const named = inputFiles(graph).flatMap((one) => one.names);
    const missing = named.find((name) => error.message.includes(`${name}; No such file`));
    return missing === undefined ? error : unreadable(missing, { code: 'ENOENT' });
  }
  if (isShoalError(error, 'SHOAL_TF_INVALID_ARGUMENT')) return explainRow(error, graph, signal);
  return explainDataLoss(error, { graph, signal });
}

/** What TensorFlow reports about rows, without their place. */
const ABOUT_ROWS = /Field \d+ |fields? but have|[Qq]uoted field|quotes? inside|CRLF|read header of file/;

async function explainRow(error: ShoalError, graph: Graph, signal?: AbortSignal): Promise<unknown> {
  if (!ABOUT_ROWS.test(error.message)) return error;
  for (const { names, csv } of inputFiles(graph)) {
    if (!csv) continue;
    for (const file of await matchFiles(names)) {
      const found = await findBadRow(file, csv, signal);
      if (found) return badRow(file, found, error);
    }
  }
  return error;
}
