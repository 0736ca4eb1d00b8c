/**
 * Gives the variables of a cluster their values from a checkpoint. Each owner reads the ranges of its own variables;
 * the chief reads the index alone. What was saved on two owners may be restored on three: names and slices decide, not
 * places, and a slot is a variable like any other.
 */
import { firstLineOf, isShoalError, messageOf, ShoalError } from '../errors/errors.js';
import type { BundleIndex } from '../formats/tensor-bundle/bundle-index.js';
import { BundleReader } from '../formats/tensor-bundle/bundle-reader.js';
import { dtypeName } from '../formats/tensor-bundle/dtypes.js';
import type { Store } from '../store/store.js';
import { dtypeNumber } from '../tensor/dtype.js';
import { healthOf, type Survey, type UnreadableManifest } from './catalog.js';
import { readInput } from './input-file.js';
import type { Manifest } from './manifest.js';
import { readManifest } from './read-manifest.js';
import { replaceDamaged } from './replace-damaged.js';
import { fullShapeOf, type SavedVariable } from './saved-variable.js';
import type { ShardOwner } from './shard-owner.js';
import { VerifiedReader } from './verified-reader.js';

export interface RestoreContext {
  readonly store: Store;
  readonly namespace: string;
  readonly owner: (name: string) => ShardOwner;
  /**
   * Waits for some of those places that can not be asked at the moment. True: one that could not be asked before can be
   * now. False: all can be asked, or they did not come in time.
   */
  readonly waitForHolders?: HolderWait | undefined;
  readonly log?: ((line: string) => void) | undefined;
}

export type HolderWait = (
  places: readonly string[],
  options: { readonly why: string; readonly signal?: AbortSignal | undefined },
) => Promise<boolean>;

export interface RestoreRequest {
  readonly variables: ReadonlyMap<string, readonly SavedVariable[]>;
  /** Variables that the checkpoint does not have are an error, unless this is false. */
  readonly strict?: boolean | undefined;
  /** Whether the state of the input is wanted too; without it a checkpoint can be restored that has lost it. */
  readonly readsInput?: boolean | undefined;
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
  /** The state of the input as it was saved, where it was asked for; null where the checkpoint has none. */
  readonly input?: unknown;
  /** Copies that were passed over, and the like. */
  readonly notices: readonly string[];
}

/**
 * Restores one checkpoint, or says why that cannot be. Where a copy is missing or damaged and a task that holds another one
 * is away, that task is waited for.
 */
export async function restoreCheckpoint(
  context: RestoreContext,
  manifest: Manifest,
  request: RestoreRequest,
): Promise<RestoreReport> {
  const places = [...new Set(manifest.files.flatMap((file) => file.places))];
  for (;;) {
    try {
      return await restoreOnce(context, manifest, request);
    } catch (error) {
      request.signal?.throwIfAborted();
      if (!(error instanceof Unrestorable)) throw error;
      const why = `${manifest.prefix} can not be restored yet (${firstLineOf(error)})`;
      if (!(await context.waitForHolders?.(places, { why, signal: request.signal }))) throw error;
    }
  }
}

async function restoreOnce(
  context: RestoreContext,
  manifest: Manifest,
  request: RestoreRequest,
): Promise<RestoreReport> {
  const { store, namespace, owner, log } = context;
  const { signal, strict = true, readsInput = false, last = new Set<string>() } = request;
  const reader = new VerifiedReader(store, manifest, { namespace, signal, ...(log && { onDamage: log }) });
  const reading = (async () => {
    const bundle = await BundleReader.open(reader, manifest.prefix);
    return { index: bundle.index, input: readsInput ? await readInput(reader, manifest) : undefined };
  })().finally(() => reader.close());
  // What is lost says more.
  reading.catch(() => {});
  const { missing: allLost } = await healthOf(store, namespace, manifest, { signal });
  // The graph in the `.meta` file is for others: no variable gets its value from it.
  const isNeeded = (file: string) => !file.endsWith('.meta') && (readsInput || file !== manifest.inputFile);
  const lostFiles = allLost.filter(isNeeded);
  if (lostFiles.length > 0) {
    throw new Unrestorable(
      'SHOAL_UNREACHABLE',
      `${manifest.prefix} is not complete: no copy of ${lostFiles.join(', ')} is in reach`,
      { hint: 'Start the tasks that hold it; `shoal checkpoint inspect` tells which.' },
    );
  }
  const { index, input } = await reading.catch((error: unknown) => {
    signal?.throwIfAborted();
    if (isShoalError(error, 'SHOAL_UNSUPPORTED')) throw error;
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
  // Owners need no state of the input, which may be large where it is inline.
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
    if (answer.damage !== undefined) throw new Unrestorable('SHOAL_CORRUPT', `${name}: ${answer.damage}`);
  };
  const owners = [...found.keys()];
  await allEnded(owners.filter((name) => !last.has(name)).map(ask), stop);
  await allEnded(owners.filter((name) => last.has(name)).map(ask), stop);
  const wanted = new Set([...request.variables.values()].flat().map(({ key }) => key));
  const unused = [...index.tensors.keys()].filter((key) => !wanted.has(key));
  void replaceDamaged(store, reader.damaged, { log });
  return { manifest, missing, unused, bytesRead, notices, ...(readsInput && { input }) };
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

/**
 * Restores the first of the checkpoints that can be. One that cannot is passed over for an older one, loudly; except for one
 * that this version of Shoal can not read, which is no damage: to go back behind it would discard good training.
 */
export async function restoreNewest(
  context: RestoreContext,
  { manifests, unreadable }: Pick<Survey, 'manifests' | 'unreadable'>,
  request: RestoreRequest,
  check: (manifest: Manifest) => void = () => {},
): Promise<RestoreReport> {
  const failures: string[] = [];
  let isDamageOnly = true;
  const passOver = (what: string, error: ShoalError) => {
    failures.push(`${what}: ${messageOf(error)}`);
    isDamageOnly &&= error.code === 'SHOAL_CORRUPT';
    context.log?.(`checkpoint ${what} can not be restored: ${firstLineOf(error)}; trying the one before`);
  };
  const all = [...manifests, ...unreadable].sort((a, b) => b.sequence - a.sequence);
  for (const found of all) {
    const one = isUnreadable(found) ? await readLater(context, found, request.signal) : found;
    if (isUnreadable(one)) {
      if (one.error.code === 'SHOAL_UNSUPPORTED') throw one.error;
      passOver(`of step ${one.step}`, one.error);
      continue;
    }
    check(one);
    try {
      return await restoreCheckpoint(context, one, request);
    } catch (error) {
      request.signal?.throwIfAborted();
      // That a task was lost meanwhile is no reason to go back further.
      if (!(error instanceof Unrestorable)) throw error;
      passOver(one.prefix, error);
    }
  }
  throw new ShoalError(
    // On one disk no better copy can turn up later.
    isDamageOnly && context.store.kind === 'file' ? 'SHOAL_CORRUPT' : 'SHOAL_UNREACHABLE',
    `There are ${all.length} checkpoints, and none can be restored. ${failures.join('; ')}`,
    { hint: 'Start the machines that hold them. Nothing was initialised, and nothing is lost by waiting.' },
  );
}

/** A manifest none of whose copies could be reached: those who hold it are waited for. */
async function readLater(
  { store, waitForHolders, log }: RestoreContext,
  found: UnreadableManifest,
  signal: AbortSignal | undefined,
): Promise<Manifest | UnreadableManifest> {
  let { error } = found;
  while (error.code === 'SHOAL_UNREACHABLE') {
    const why = `the checkpoint of step ${found.step} can not be restored yet (${firstLineOf(error)})`;
    const hasCome = await waitForHolders?.(found.places, { why, signal });
    // Also where nobody was waited for: they may have come back since.
    const again = await readManifest(store, found.name, found.places, { signal, onNotice: log });
    if (again.manifest) return again.manifest;
    error = again.error ?? error;
    if (!hasCome) break;
  }
  return { ...found, error };
}

const isUnreadable = (one: Manifest | UnreadableManifest): one is UnreadableManifest => 'error' in one;

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
