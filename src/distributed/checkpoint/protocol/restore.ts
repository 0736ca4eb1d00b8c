/**
 * Restores the variables of a cluster from a checkpoint. Each owner reads the ranges of its own variables; the chief
 * reads only the index. A checkpoint of two owners can be restored on three: variables are matched by name and slice.
 * Optimizer slots are variables like any other.
 */

import { firstLineOf, hintLineOf, isShoalError, messageOf, ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { BundleIndex } from '../../../tensorflow/formats/tensor-bundle/bundle-index.js';
import { BundleReader } from '../../../tensorflow/formats/tensor-bundle/bundle-reader.js';
import { dtypeName } from '../../../tensorflow/formats/tensor-bundle/dtypes.js';
import { dtypeNumber } from '../../../tensorflow/tensor/dtype.js';
import type { Store } from '../../store/store.js';
import { isOfOtherRelease, type Manifest } from '../format/manifest.js';
import { readManifest } from '../format/read-manifest.js';
import { fullShapeOf, type SavedVariable } from '../format/saved-variable.js';
import { type FileHealth, healthOf, type Survey, type UnreadableManifest } from '../reading/catalog.js';
import { readInput } from '../reading/input-file.js';
import { replaceDamaged } from '../reading/replace-damaged.js';
import { VerifiedReader } from '../reading/verified-reader.js';
import type { ShardOwner } from '../shard/shard-owner.js';

export interface RestoreContext {
  readonly store: Store;
  readonly namespace: string;
  readonly owner: (name: string) => ShardOwner;
  /**
   * Waits for one of those places that is currently unreachable. True: another place has become reachable. False: all
   * are reachable, or the wait timed out.
   */
  readonly waitForHolders?: HolderWait;
  /** Whether this process belongs to no cluster: it cannot reach the shards of other tasks. Default: false. */
  readonly isAlone?: boolean;
  readonly log?: Log;
}

export type HolderWait = (
  places: readonly string[],
  options: { readonly why: string; readonly signal?: AbortSignal | undefined },
) => Promise<boolean>;

export interface RestoreSelection {
  readonly variables: ReadonlyMap<string, readonly SavedVariable[]>;
  /** Whether variables missing in the checkpoint are an error; default: true. */
  readonly strict?: boolean;
  /** Whether to read the input state too; without it a checkpoint that lost it can be restored. Default: false. */
  readonly readsInput?: boolean;
  /** Owners that are restored after all others: once their values are visible, all are. */
  readonly last?: ReadonlySet<string>;
  readonly signal?: AbortSignal;
}

export interface RestoreReport {
  /** @internal */
  readonly manifest: Manifest;
  /** Variables without a value in the checkpoint; they keep their values. */
  readonly missing: readonly string[];
  /** Tensors of the checkpoint that were not requested. */
  readonly unused: readonly string[];
  readonly bytesRead: number;
  /** The places that hold a copy. @internal */
  readonly places: readonly string[];
  /** The saved input state, if requested; null if the checkpoint has none. */
  readonly input?: unknown;
  /** Problems that did not stop the restore, such as skipped copies. */
  readonly notices: readonly string[];
}

/**
 * Restores one checkpoint. If a copy is missing or damaged and a task that holds another one is unreachable, it waits
 * for that task.
 */
export async function restoreCheckpoint(
  context: RestoreContext,
  manifest: Manifest,
  request: RestoreSelection,
): Promise<RestoreReport> {
  const places = [...new Set(manifest.files.flatMap((file) => file.places))];
  for (;;) {
    try {
      return await restoreOnce(context, manifest, request);
    } catch (error) {
      request.signal?.throwIfAborted();
      if (!(error instanceof NotRestorable)) throw error;
      const why = `${manifest.prefix} cannot be restored yet (${firstLineOf(error)})`;
      if (!(await context.waitForHolders?.(places, { why, signal: request.signal }))) throw error;
    }
  }
}

async function restoreOnce(
  context: RestoreContext,
  manifest: Manifest,
  request: RestoreSelection,
): Promise<RestoreReport> {
  const { store, namespace, owner, log } = context;
  const { signal, strict = true, readsInput = false, last = new Set<string>() } = request;
  const reader = new VerifiedReader(store, manifest, { namespace, signal, onDamage: log });
  const reading = (async () => {
    const bundle = await BundleReader.open(reader, manifest.prefix);
    return { index: bundle.index, input: readsInput ? await readInput(reader, manifest) : undefined };
  })().finally(() => reader.close());
  const stop = new AbortController();
  const either = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
  const checking = locateFiles(context, manifest, request);
  checking.catch((error: unknown) => stop.abort(error));
  const { index, input } = await reading.catch(async (error: unknown) => {
    // The check for lost files gives a better error.
    await checking;
    signal?.throwIfAborted();
    if (isOfOtherRelease(error)) throw error;
    throw isShoalError(error) ? new NotRestorable(error.code, messageOf(error), { cause: error }) : error;
  });
  const { found, missing } = match(index, request.variables, manifest.prefix);
  if (strict && missing.length > 0) throw missingValues(manifest.prefix, missing);
  const notices: string[] = [];
  let { bytesRead } = reader;
  // Owners do not need the input state, which may be large if it is inline.
  const withoutInput = { ...manifest, input: null };
  const ask = async (name: string) => {
    const variables = [...(found.get(name) ?? [])];
    if (variables.length === 0) return;
    const answer = await owner(name).restore(
      { manifest: withoutInput, namespace, store: store.url, variables },
      { signal: either },
    );
    bytesRead += answer.bytesRead;
    notices.push(...answer.notices);
    if (answer.damage !== undefined) throw new NotRestorable('SHOAL_CORRUPT', `${name}: ${answer.damage}`);
  };
  const owners = [...found.keys()];
  // Nothing tells the values of a restore that fails in the middle from those before it.
  if (last.size === 0) await checking;
  const restoreOwners = async (isLast: boolean) => {
    const failure = await allEnded(owners.filter((name) => last.has(name) === isLast).map(ask), stop);
    // Before any variable that had no value gets one. A restore that was stopped because of lost files fails with these.
    const files = await checking;
    if (failure) throw failure.error;
    return files;
  };
  await restoreOwners(false);
  const files = await restoreOwners(true);
  const wanted = new Set([...request.variables.values()].flat().map(({ key }) => key));
  const unused = [...index.tensors.keys()].filter((key) => !wanted.has(key));
  void replaceDamaged(store, reader.damaged, { log });
  const places = [...new Set(files.flatMap((file) => file.places))].sort();
  return { manifest, missing, unused, bytesRead, places, notices, ...(readsInput && { input }) };
}

function missingValues(prefix: string, missing: readonly string[]): ShoalError {
  const more = missing.length > 5 ? `, … (${missing.length})` : '';
  return new ShoalError(
    'SHOAL_NOT_FOUND',
    `${prefix} has no value for ${missing.slice(0, 5).join(', ')}${more}`,
    { hint: 'Restore only some of the variables, or map names with a varList.' },
  );
}

/** Where the files are that a restore needs. Rejects if one of them has no copy. */
async function locateFiles(
  { store, namespace }: RestoreContext,
  manifest: Manifest,
  { signal, readsInput = false }: RestoreSelection,
): Promise<readonly FileHealth[]> {
  const { missing, files } = await healthOf(store, namespace, manifest, { signal });
  // No variable is restored from the graph in the `.meta` file.
  const isNeeded = (file: string) => !file.endsWith('.meta') && (readsInput || file !== manifest.inputFile);
  const lost = missing.filter(isNeeded);
  if (lost.length === 0) return files;
  throw new NotRestorable(
    'SHOAL_UNREACHABLE',
    `${manifest.prefix} is not complete: no copy of ${lost.join(', ')} is reachable`,
    { hint: 'Start the tasks that hold it; `shoal checkpoint inspect` lists them.' },
  );
}

/** The first failure, after all have ended: a running one could overwrite values of the next checkpoint. */
async function allEnded(
  works: readonly Promise<void>[],
  stop: AbortController,
): Promise<{ readonly error: unknown } | undefined> {
  const failures: { readonly error: unknown }[] = [];
  await Promise.all(
    works.map((work) =>
      work.catch((error: unknown) => {
        failures.push({ error });
        stop.abort(error);
      }),
    ),
  );
  return failures[0];
}

/**
 * Restores the newest restorable checkpoint. A damaged one is logged and skipped for an older one. A checkpoint that
 * only a newer Shoal can read is an error: skipping it would discard good training.
 */
export async function restoreNewest(
  context: RestoreContext,
  { manifests, unreadable }: Pick<Survey, 'manifests' | 'unreadable'>,
  request: RestoreSelection,
  check: (manifest: Manifest) => void = () => {},
): Promise<RestoreReport> {
  const failures: string[] = [];
  let isDamageOnly = true;
  const skip = (what: string, error: ShoalError) => {
    failures.push(`${what}: ${messageOf(error)}`);
    isDamageOnly &&= error.code === 'SHOAL_CORRUPT';
    context.log?.(
      `checkpoint ${what} cannot be restored: ${firstLineOf(error)}; trying the previous one${hintLineOf(error)}`,
      'warn',
    );
  };
  const all = [...manifests, ...unreadable].sort((a, b) => b.sequence - a.sequence);
  for (const found of all) {
    const one = isUnreadable(found) ? await retryManifest(context, found, request.signal) : found;
    if (isUnreadable(one)) {
      if (isOfOtherRelease(one.error)) throw one.error;
      skip(`of step ${one.step}`, one.error);
      continue;
    }
    check(one);
    try {
      return await restoreCheckpoint(context, one, request);
    } catch (error) {
      request.signal?.throwIfAborted();
      // A task lost meanwhile is no reason to use an older checkpoint.
      if (!(error instanceof NotRestorable)) throw error;
      if (context.isAlone && error.code === 'SHOAL_UNREACHABLE' && one.chief.task !== '')
        throw ofCluster(one, error);
      skip(one.prefix, error);
    }
  }
  throw new ShoalError(
    // A file store has one copy: no better one can appear later.
    isDamageOnly && context.store.kind === 'file' ? 'SHOAL_CORRUPT' : 'SHOAL_UNREACHABLE',
    `There are ${all.length} checkpoints, and none can be restored. ${failures.join('; ')}`,
    { hint: 'Start the machines that hold them. Nothing was initialized, and nothing is lost by waiting.' },
  );
}

/** Waits for the holders of an unreachable manifest and reads it again. */
async function retryManifest(
  { store, waitForHolders, log }: RestoreContext,
  found: UnreadableManifest,
  signal: AbortSignal | undefined,
): Promise<Manifest | UnreadableManifest> {
  let { error } = found;
  while (error.code === 'SHOAL_UNREACHABLE') {
    const why = `the checkpoint of step ${found.step} cannot be restored yet (${firstLineOf(error)})`;
    const hasCome = await waitForHolders?.(found.places, { why, signal });
    // Even without a wait: the holders may have returned since the first read.
    const again = await readManifest(store, found.name, found.places, { signal, onNotice: log });
    if (again.manifest) return again.manifest;
    error = again.error ?? error;
    if (!hasCome) break;
  }
  return { ...found, error };
}

const isUnreadable = (one: Manifest | UnreadableManifest): one is UnreadableManifest => 'error' in one;

/** The shards exist, so an older checkpoint would discard steps. */
function ofCluster({ prefix, files }: Manifest, cause: ShoalError): ShoalError {
  const places = [...new Set(files.flatMap((file) => file.places))].sort();
  return new ShoalError(
    'SHOAL_UNREACHABLE',
    `${prefix} was saved by a cluster, and a process alone does not find its files: they are on ${places.join(', ')}`,
    {
      hint: 'Run the job with as many ps and workers as before, or in another directory; `shoal checkpoint pull` copies it.',
      cause,
    },
  );
}

/** The checkpoint itself is damaged or incomplete: another one may be restorable. */
class NotRestorable extends ShoalError {}

/** The variables that the checkpoint has, after a check of their types and shapes. */
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
          { hint: 'The model has changed since the save; leave the variable out of the varList.' },
        );
      }
      present.push(variable);
    }
    found.set(owner, present);
  }
  return { found, missing: [...missing] };
}
