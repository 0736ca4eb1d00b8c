/**
 * Loads a SavedModel with large variables as TensorFlow's loader does (import the graph, restore the variables, run the
 * init op), but reads the variables itself, which is faster: docs/design/021.
 */
import { join } from 'node:path';
import { withDeadline } from '../../../base/async/deadline.js';
import { isShoalError } from '../../../base/errors/errors.js';
import type { MetaGraphDef } from '../../../base/proto/generated/model_pb.js';
import { DirectoryReader } from '../../../tensorflow/formats/range-reader.js';
import { dataFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { LowPriorityReader } from '../../../tensorflow/native/threads/low-priority-reader.js';
import { deadlineError } from '../../../tensorflow/session/native-call.js';
import type { RunOptions } from '../../../tensorflow/session/runner.js';
import { Session, type SessionOptions } from '../../../tensorflow/session/session.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { edgeOf } from '../graph/prune-graph.js';
import {
  ASSETS_DIRECTORY,
  INIT_OP_SIGNATURE,
  LEGACY_INIT_OP_KEY,
  MAIN_OP_KEY,
  VARIABLES_DIRECTORY,
  VARIABLES_PREFIX,
} from '../signatures/constants.js';
import { namesOf } from '../signatures/signature-def.js';
import { assetsOf, openVariables } from './check-files.js';
import { type DataFile, openData, readPieces } from './read-pieces.js';
import { type RestoredPiece, restoredPieces } from './restore-feeds.js';

/** Smaller models are left to TensorFlow. */
const MIN_BYTES = 64 << 20;
/** Files of which more is in the page cache are read through it. */
const MAX_CACHED = 0.5;

export interface LargeModelOptions {
  readonly config?: SessionOptions['config'];
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** Reads the variables on a thread of low priority. Default: false. */
  readonly inBackground?: boolean;
  /** The least size of the variables in bytes; default: 64 MiB. */
  readonly minBytes?: number;
  /** The largest part of a file that may be in the page cache if the file is read past it; default: one half. */
  readonly maxCached?: number;
}

type Limits = Required<Pick<RunOptions, 'timeoutMs'>> & Pick<RunOptions, 'signal'>;

/**
 * Undefined if TensorFlow has to load the model. That includes models that cannot be loaded: TensorFlow finds the same
 * fault, so its errors are those of every model.
 */
export async function loadLargeModel(
  directory: string,
  meta: MetaGraphDef,
  options: LargeModelOptions,
): Promise<Session | undefined> {
  const { timeoutMs, signal } = options;
  const until = performance.now() + timeoutMs;
  const limits = (): Limits => {
    const left = until - performance.now();
    if (left <= 0) throw deadlineError(`Loading ${directory}`, timeoutMs);
    return { timeoutMs: Math.ceil(left), signal };
  };
  const background = options.inBackground ? LowPriorityReader.start() : undefined;
  const opened = await openFiles(directory, meta, options, background).catch(() => undefined);
  if (!opened) {
    background?.close();
    return undefined;
  }
  const { files, pieces } = opened;
  const stop = new AbortController();
  const reading = readPieces(files, pieces, stop.signal);
  // Awaited when the session is open.
  reading.catch(() => {});
  const values = async () => {
    const tensors = await withinLimits(reading, `Loading ${directory}`, limits());
    return Object.fromEntries(pieces.map(({ output }, i) => [output, tensors[i]!]));
  };
  try {
    return await openSession(directory, meta, values, options.config, limits);
  } catch (error) {
    if (isAbandoned(error)) throw error;
    return undefined;
  } finally {
    stop.abort();
    // Not awaited: on a disk that hangs, pending reads never end.
    reading
      .then(disposeAll, () => {})
      .then(() => closeAll(files))
      .catch(() => {})
      .finally(() => background?.close());
  }
}

const isAbandoned = (error: unknown): boolean =>
  isShoalError(error, 'SHOAL_ABORTED') || isShoalError(error, 'SHOAL_TF_DEADLINE_EXCEEDED');

function disposeAll(tensors: readonly Tensor[]): void {
  for (const tensor of tensors) tensor.dispose();
}

async function closeAll(files: readonly DataFile[]): Promise<void> {
  for (const { file } of files) await file.close();
}

/** As `withDeadline`, with the error of a native call that exceeds its deadline. */
async function withinLimits<T>(work: Promise<T>, what: string, limits: Limits): Promise<T> {
  try {
    return await withDeadline(work, what, limits);
  } catch (error) {
    throw isShoalError(error, 'SHOAL_TIMEOUT') ? deadlineError(what, limits.timeoutMs) : error;
  }
}

/** What to read, and the open data files; undefined if TensorFlow has to read it. */
async function openFiles(
  directory: string,
  meta: MetaGraphDef,
  { minBytes = MIN_BYTES, maxCached = MAX_CACHED }: LargeModelOptions,
  background: LowPriorityReader | undefined,
): Promise<{ readonly files: DataFile[]; readonly pieces: RestoredPiece[] } | undefined> {
  const folder = join(directory, VARIABLES_DIRECTORY);
  await using reader = new DirectoryReader(folder);
  const bundle = await openVariables(reader, directory, meta);
  if (!bundle) return undefined;
  const { index } = bundle;
  const pieces = restoredPieces(meta, index);
  const bytes = pieces.reduce((sum, { piece }) => sum + piece.size, 0);
  if (bytes === 0 || bytes < minBytes) return undefined;
  const files: DataFile[] = [];
  try {
    for (let shard = 0; shard < index.shards; shard++)
      files.push(
        await openData(join(folder, dataFile(VARIABLES_PREFIX, shard, index.shards)), maxCached, background),
      );
    return { files, pieces };
  } catch (error) {
    await closeAll(files);
    throw error;
  }
}

/** Imports the graph while the values are read. */
async function openSession(
  directory: string,
  meta: MetaGraphDef,
  values: () => Promise<Record<string, Tensor>>,
  config: SessionOptions['config'],
  limits: () => Limits,
): Promise<Session> {
  const graph = new Graph();
  let session: Session | undefined;
  try {
    graph.importGraphDef(meta.graphDef!);
    session = await Session.create({ graph, config, ...limits() });
    const { restoreOpName, filenameTensorName } = meta.saverDef!;
    const assets = assetFeeds(directory, meta);
    const path = join(directory, VARIABLES_DIRECTORY, VARIABLES_PREFIX);
    const feeds = { ...assets, [filenameTensorName]: path, ...(await values()) };
    await session.run(graph.operation(restoreOpName), { feeds, ...limits() });
    const initOp = initOpOf(meta);
    if (initOp) await session.run(graph.operation(initOp), { feeds: assets, ...limits() });
    return session;
  } catch (error) {
    const closed = session?.close();
    // Abandoned calls may still use the graph, which is then freed when nothing refers to it.
    if (isAbandoned(error)) closed?.catch(() => {});
    else {
      await closed;
      graph.dispose();
    }
    throw error;
  }
}

/** The paths of the assets, by the tensors that take them. */
function assetFeeds(directory: string, meta: MetaGraphDef): Record<string, string> {
  return Object.fromEntries(
    assetsOf(meta).flatMap(({ tensorInfo, filename }) =>
      (tensorInfo ? namesOf(tensorInfo) : []).map((name) => [
        name,
        join(directory, ASSETS_DIRECTORY, filename),
      ]),
    ),
  );
}

/** The op that TensorFlow's loader runs after the restore. */
function initOpOf({ signatureDef, collectionDef }: MetaGraphDef): string | undefined {
  const info = signatureDef[INIT_OP_SIGNATURE]?.outputs[INIT_OP_SIGNATURE];
  if (info) return edgeOf(namesOf(info)[0] ?? '').node;
  const { kind } = collectionDef[MAIN_OP_KEY] ?? collectionDef[LEGACY_INIT_OP_KEY] ?? {};
  return kind?.case === 'nodeList' ? kind.value.value[0] : undefined;
}
