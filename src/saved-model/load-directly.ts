/**
 * Loads a SavedModel as TensorFlow's loader does (import the graph, restore the variables, run the init op), but reads
 * the variables past the page cache. That is faster for large files that are not in the page cache. Files that are in
 * it, small models and everything unusual are left to TensorFlow's loader: docs/design/021.
 */
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { withDeadline } from '../async/deadline.js';
import { isShoalError } from '../errors/errors.js';
import { DirectoryReader } from '../formats/range-reader.js';
import { dataFile } from '../formats/tensor-bundle/naming.js';
import { Graph } from '../graph/graph.js';
import { cachedPart } from '../native/page-cache.js';
import type { MetaGraphDef } from '../proto/generated/model_pb.js';
import { deadlineError } from '../session/native-call.js';
import { type RunOptions, Session, type SessionOptions } from '../session/session.js';
import type { Tensor } from '../tensor/tensor.js';
import { assetsOf, openVariables } from './check-files.js';
import {
  ASSETS_DIRECTORY,
  INIT_OP_SIGNATURE,
  LEGACY_INIT_OP_KEY,
  MAIN_OP_KEY,
  VARIABLES_DIRECTORY,
  VARIABLES_PREFIX,
} from './constants.js';
import { edgeOf } from './prune-graph.js';
import { openUncached, readPieces } from './read-pieces.js';
import { type RestoredPiece, restoredPieces } from './restore-feeds.js';
import { namesOf } from './signature-def.js';

/** Smaller models are left to TensorFlow. */
const MIN_BYTES = 64 << 20;
/** Files of which more is in the page cache are left to TensorFlow. */
const MAX_CACHED = 0.5;

export interface DirectLoadOptions {
  readonly config?: SessionOptions['config'];
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** The least size of the variables in bytes; default: 64 MiB. */
  readonly minBytes?: number;
  /** The largest part of the files that may be in the page cache; default: one half. */
  readonly maxCached?: number;
}

type Limits = Required<Pick<RunOptions, 'timeoutMs'>> & Pick<RunOptions, 'signal'>;

/**
 * Undefined if TensorFlow has to load the model. That includes models that cannot be loaded: TensorFlow finds the same
 * fault, so the error does not depend on the state of the page cache.
 */
export async function loadDirectly(
  directory: string,
  meta: MetaGraphDef,
  options: DirectLoadOptions,
): Promise<Session | undefined> {
  const { timeoutMs, signal } = options;
  const until = performance.now() + timeoutMs;
  const limits = (): Limits => ({
    timeoutMs: Math.max(1, until - performance.now()),
    ...(signal ? { signal } : {}),
  });
  const opened = await openFiles(directory, meta, options).catch(() => undefined);
  if (!opened) return undefined;
  const { files, pieces } = opened;
  const stop = new AbortController();
  const reading = readPieces(files, pieces, stop.signal);
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
      .catch(() => {});
  }
}

const isAbandoned = (error: unknown): boolean =>
  isShoalError(error, 'SHOAL_ABORTED') || isShoalError(error, 'SHOAL_TF_DEADLINE_EXCEEDED');

function disposeAll(tensors: readonly Tensor[]): void {
  for (const tensor of tensors) tensor.dispose();
}

async function closeAll(files: readonly FileHandle[]): Promise<void> {
  for (const file of files) await file.close();
}

/** As `withDeadline`, with the error of a native call that exceeds its deadline. */
async function withinLimits<T>(work: Promise<T>, what: string, limits: Limits): Promise<T> {
  try {
    return await withDeadline(work, what, limits);
  } catch (error) {
    throw isShoalError(error, 'SHOAL_TIMEOUT') ? deadlineError(what, limits.timeoutMs) : error;
  }
}

/** What to read, and the open data files; undefined if TensorFlow reads it as fast or has to read it. */
async function openFiles(
  directory: string,
  meta: MetaGraphDef,
  { minBytes = MIN_BYTES, maxCached = MAX_CACHED }: DirectLoadOptions,
): Promise<{ readonly files: FileHandle[]; readonly pieces: RestoredPiece[] } | undefined> {
  const folder = join(directory, VARIABLES_DIRECTORY);
  await using reader = new DirectoryReader(folder);
  const bundle = await openVariables(reader, directory, meta);
  if (!bundle) return undefined;
  const { index } = bundle;
  const pieces = restoredPieces(meta, index);
  const bytes = pieces.reduce((sum, { piece }) => sum + piece.size, 0);
  if (bytes === 0 || bytes < minBytes) return undefined;
  const paths = Array.from({ length: index.shards }, (_, shard) =>
    join(folder, dataFile(VARIABLES_PREFIX, shard, index.shards)),
  );
  const files = await openUncached(paths);
  if (!files) return undefined;
  if ((await cachedPartOf(files)) <= maxCached) return { files, pieces };
  await closeAll(files);
  return undefined;
}

async function cachedPartOf(files: readonly FileHandle[]): Promise<number> {
  let [cached, total] = [0, 0];
  for (const file of files) {
    const { size } = await file.stat();
    cached += size * (cachedPart(file.fd, size) ?? 0);
    total += size;
  }
  return cached / total;
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
    session = await Session.create({ graph, ...(config ? { config } : {}), ...limits() });
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
