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
import { restoredPieces } from './restore-feeds.js';
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
  const { timeoutMs, signal, config } = options;
  const until = performance.now() + timeoutMs;
  const limits = (): Limits => ({
    timeoutMs: Math.max(1, until - performance.now()),
    ...(signal ? { signal } : {}),
  });
  const values = new Map<string, Tensor>();
  try {
    if (!(await readValues(values, directory, meta, options, limits()))) return undefined;
    return await openSession(directory, meta, values, config, limits);
  } catch (error) {
    if (isAbandoned(error)) throw error;
    return undefined;
  } finally {
    for (const value of values.values()) value.dispose();
  }
}

const isAbandoned = (error: unknown): boolean =>
  isShoalError(error, 'SHOAL_ABORTED') || isShoalError(error, 'SHOAL_TF_DEADLINE_EXCEEDED');

/** Reads the values of the outputs that can be fed; false if TensorFlow reads them as fast or has to read them. */
async function readValues(
  values: Map<string, Tensor>,
  directory: string,
  meta: MetaGraphDef,
  { minBytes = MIN_BYTES, maxCached = MAX_CACHED }: DirectLoadOptions,
  limits: Limits,
): Promise<boolean> {
  const folder = join(directory, VARIABLES_DIRECTORY);
  await using index = new DirectoryReader(folder);
  const bundle = await openVariables(index, directory, meta);
  if (!bundle) return false;
  const { shards } = bundle.index;
  const pieces = restoredPieces(meta, bundle.index);
  const bytes = pieces.reduce((sum, { piece }) => sum + piece.size, 0);
  if (bytes === 0 || bytes < minBytes) return false;
  const names = Array.from({ length: shards }, (_, shard) => dataFile(VARIABLES_PREFIX, shard, shards));
  const files = await openUncached(names.map((name) => join(folder, name)));
  if (!files) return false;
  const stop = new AbortController();
  let reading: Promise<Tensor[]> | undefined;
  try {
    if ((await cachedPartOf(files)) > maxCached) return false;
    reading = readPieces(files, pieces, stop.signal);
    const found = await withDeadline(reading, `Loading ${directory}`, limits);
    pieces.forEach(({ output }, i) => {
      values.set(output, found[i]!);
    });
    return true;
  } catch (error) {
    stop.abort();
    // It may have completed meanwhile.
    reading?.then(
      (tensors) => {
        for (const tensor of tensors) tensor.dispose();
      },
      () => {},
    );
    throw isShoalError(error, 'SHOAL_TIMEOUT')
      ? deadlineError(`Loading ${directory}`, limits.timeoutMs)
      : error;
  } finally {
    const close = () => Promise.all(files.map((file) => file.close()));
    // Not awaited: on a disk that hangs, pending reads never end.
    (reading ?? Promise.resolve()).then(close, close).catch(() => {});
  }
}

async function cachedPartOf(files: readonly FileHandle[]): Promise<number> {
  let [cached, total] = [0, 0];
  for (const file of files) {
    const { size } = await file.stat();
    cached += size * (cachedPart(file.fd, size) ?? 0);
    total += size;
  }
  return total === 0 ? 0 : cached / total;
}

async function openSession(
  directory: string,
  meta: MetaGraphDef,
  values: ReadonlyMap<string, Tensor>,
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
    const feeds = { ...assets, [filenameTensorName]: path, ...Object.fromEntries(values) };
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
