/**
 * Gives the variables of a cluster their values from a checkpoint. Each owner reads the ranges of its own variables;
 * the chief reads the index alone. What was saved on two owners may be restored on three: names and slices decide, not
 * places, and a slot is a variable like any other.
 */
import { isShoalError, messageOf, ShoalError } from '../errors/errors.js';
import type { BundleIndex } from '../formats/tensor-bundle/bundle-index.js';
import { BundleReader } from '../formats/tensor-bundle/bundle-reader.js';
import { dtypeName } from '../formats/tensor-bundle/dtypes.js';
import type { Store } from '../store/store.js';
import { dtypeNumber } from '../tensor/dtype.js';
import { healthOf } from './catalog.js';
import type { Manifest } from './manifest.js';
import { fullShapeOf, type SavedVariable } from './saved-variable.js';
import type { ShardOwner } from './shard-owner.js';
import { VerifiedReader } from './verified-reader.js';

export interface RestoreContext {
  readonly store: Store;
  readonly namespace: string;
  readonly owner: (name: string) => ShardOwner;
  readonly log?: ((line: string) => void) | undefined;
}

export interface RestoreRequest {
  readonly variables: ReadonlyMap<string, readonly SavedVariable[]>;
  /** Variables that the checkpoint does not have are an error, unless this is false. */
  readonly strict?: boolean | undefined;
  /** Owners that are served after all others: who sees their values knows that all are there. */
  readonly last?: ReadonlySet<string> | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface RestoreReport {
  readonly manifest: Manifest;
  /** Variables without a value in the checkpoint; they keep what they have. */
  readonly missing: readonly string[];
  /** What is in the checkpoint and was not asked for. */
  readonly unused: readonly string[];
  readonly bytesRead: number;
  /** Copies that were passed over, and the like. */
  readonly notices: readonly string[];
}

/** Restores one checkpoint, or says why that cannot be. */
export async function restoreCheckpoint(
  context: RestoreContext,
  manifest: Manifest,
  request: RestoreRequest,
): Promise<RestoreReport> {
  const { store, namespace, owner, log } = context;
  const { signal, strict = true, last = new Set<string>() } = request;
  const reader = new VerifiedReader(store, manifest, { namespace, signal, ...(log && { onDamage: log }) });
  const opening = BundleReader.open(reader, manifest.prefix).finally(() => reader.close());
  // What is lost says more.
  opening.catch(() => {});
  const { missing: allLost } = await healthOf(store, namespace, manifest, { signal });
  // The graph in the `.meta` file is for others: no variable gets its value from it.
  const lostFiles = allLost.filter((file) => !file.endsWith('.meta'));
  if (lostFiles.length > 0) {
    throw new Unrestorable(
      'SHOAL_UNREACHABLE',
      `${manifest.prefix} is not whole: no copy of ${lostFiles.join(', ')} is in reach`,
      { hint: 'Start the tasks that hold it; `shoal checkpoint inspect` tells which.' },
    );
  }
  const { index } = await opening.catch((error: unknown) => {
    signal?.throwIfAborted();
    throw isShoalError(error) ? new Unrestorable(error.code, messageOf(error), { cause: error }) : error;
  });
  const { found, missing } = match(index, request.variables, manifest.prefix);
  if (strict && missing.length > 0) {
    throw new ShoalError(
      'SHOAL_NOT_FOUND',
      `${manifest.prefix} has no value for ${missing.slice(0, 5).join(', ')}${missing.length > 5 ? `, … (${missing.length})` : ''}`,
      { hint: 'Restore a part of the variables, or give names with a varList.' },
    );
  }
  const notices: string[] = [];
  let { bytesRead } = reader;
  const stop = new AbortController();
  const either = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
  const ask = async (name: string) => {
    const variables = [...(found.get(name) ?? [])];
    if (variables.length === 0) return;
    const answer = await owner(name).restore(
      { manifest, namespace, store: store.url, variables },
      { signal: either },
    );
    bytesRead += answer.bytesRead;
    notices.push(...answer.notices);
    if (answer.damage !== undefined) throw new Unrestorable('SHOAL_CORRUPT', `${name}: ${answer.damage}`);
  };
  const owners = [...found.keys()];
  await allEnded(owners.filter((name) => !last.has(name)).map(ask), stop);
  await allEnded(owners.filter((name) => last.has(name)).map(ask), stop);
  const wanted = new Set([...request.variables.values()].flat().map(({ key }) => key));
  const unused = [...index.tensors.keys()].filter((key) => !wanted.has(key));
  return { manifest, missing, unused, bytesRead, notices };
}

/** Tells the first failure when all have ended: who goes on would put its values over those of the next checkpoint. */
async function allEnded(works: readonly Promise<void>[], stop: AbortController): Promise<void> {
  const failures: unknown[] = [];
  await Promise.all(
    works.map((work) =>
      work.catch((error: unknown) => {
        failures.push(error);
        stop.abort(error);
      }),
    ),
  );
  if (failures.length > 0) throw failures[0];
}

/** Restores the first of the checkpoints that can be. One that cannot is passed over for an older one, loudly. */
export async function restoreNewest(
  context: RestoreContext,
  manifests: readonly Manifest[],
  request: RestoreRequest,
): Promise<RestoreReport> {
  const failures: string[] = [];
  for (const manifest of manifests) {
    try {
      return await restoreCheckpoint(context, manifest, request);
    } catch (error) {
      request.signal?.throwIfAborted();
      // That a task was lost meanwhile is no reason to go back further.
      if (!(error instanceof Unrestorable)) throw error;
      failures.push(`${manifest.prefix}: ${messageOf(error)}`);
      context.log?.(
        `checkpoint ${manifest.prefix} can not be restored: ${messageOf(error)}; trying the one before`,
      );
    }
  }
  throw new ShoalError(
    'SHOAL_UNREACHABLE',
    `There are ${manifests.length} checkpoints, and none can be restored. ${failures.join('; ')}`,
    { hint: 'Start the machines that hold them. Nothing was initialised, and nothing is lost by waiting.' },
  );
}

/** Something is wrong with the checkpoint itself: another one may be better. */
class Unrestorable extends ShoalError {}

/** Which variables the checkpoint has, checked for type and shape. */
function match(
  index: BundleIndex,
  variables: ReadonlyMap<string, readonly SavedVariable[]>,
  prefix: string,
): { found: Map<string, SavedVariable[]>; missing: string[] } {
  const found = new Map<string, SavedVariable[]>();
  const missing = new Set<string>();
  for (const [owner, list] of variables) {
    const present: SavedVariable[] = [];
    for (const variable of list) {
      const saved = index.tensors.get(variable.key);
      if (!saved) {
        missing.add(variable.key);
        continue;
      }
      const shape = fullShapeOf(variable);
      const same = saved.shape.length === shape.length && saved.shape.every((size, i) => size === shape[i]);
      if (!same || saved.dtype !== dtypeNumber(variable.dtype)) {
        throw new ShoalError(
          'SHOAL_INVALID_ARGUMENT',
          `${variable.key} is ${variable.dtype} [${shape}] in the graph, but ${dtypeName(saved.dtype)} [${saved.shape}] in ${prefix}`,
          { hint: 'The model has changed since; leave the variable out of the varList.' },
        );
      }
      present.push(variable);
    }
    found.set(owner, present);
  }
  return { found, missing: [...missing] };
}
