/** Carries out a commit: pauses the workers, has the owners write, and puts index and manifest. */

import { setMaxListeners } from 'node:events';
import { faultPoint } from '../../../base/async/fault-point.js';
import { crc32c } from '../../../base/bytes/crc32c.js';
import { RELEASE } from '../../../base/bytes/versions.js';
import { firstLineOf, ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import { mergeBundleIndexes } from '../../../tensorflow/formats/tensor-bundle/bundle-index.js';
import { readIndexFile, writeIndexFile } from '../../../tensorflow/formats/tensor-bundle/index-file.js';
import { indexFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import type { Store } from '../../store/store.js';
import type { Consistency } from '../format/consistency.js';
import { encodeManifest, type Manifest, type ManifestFile, manifestFile } from '../format/manifest.js';
import { fileBlob, manifestBlob, newAttempt } from '../format/names.js';
import type { SavedVariable } from '../format/saved-variable.js';
import { healthOf, nextSequence } from '../reading/catalog.js';
import { encodeInput, inputFile } from '../reading/input-file.js';
import type { ShardOwner, WrittenShard } from '../shard/shard-owner.js';
import { beginCommit, type Commit, type CommitEffect, type CommitEvent, reduceCommit } from './commit.js';

/** Pauses and resumes workers at step boundaries. */
export interface PauseControl {
  /** The workers that are training. */
  workers(): readonly string[];
  /** Called before any worker is paused; rejects if some worker could not be paused. */
  check?(options: { readonly signal: AbortSignal | undefined }): Promise<void>;
  /** The global step at which all workers pause; undefined: at once. */
  atStep?(): Promise<number | undefined>;
  /** Resolves when the worker is paused. It resumes by itself when the lease expires. */
  pause(worker: string, options: PauseOptions): Promise<void>;
  /** Ends the pause of this token. */
  resume(worker: string, token: string): Promise<void>;
  /** How long workers may take to pause, by the duration of their steps. */
  pauseTimeoutMs?(): number;
}

export interface PauseOptions {
  /** Identifies the pause. */
  readonly token: string;
  /** Whether a later pause, of an export for example, does not replace this one once it is complete; default: false. */
  readonly holds?: boolean;
  /** How long the pause lasts without a `resume`. */
  readonly leaseMs: number;
  /** Synchronous training: the global step at which to pause; default: at once. */
  readonly atStep?: number | undefined;
  readonly signal: AbortSignal;
}

/** Subscribes to losses and joins of tasks; returns the unsubscribe function. */
export type Watch = (listener: (event: { type: 'lost' | 'joined'; task: string }) => void) => () => void;

export interface SaveContext {
  readonly store: Store;
  readonly namespace: string;
  readonly owner: (name: string) => ShardOwner;
  readonly pauseControl?: PauseControl;
  readonly watch?: Watch;
  readonly chief: { readonly task: string; readonly incarnation: number };
  /**
   * Rejects with SHOAL_FORBIDDEN if some task knows that this chief was replaced. Called before anything is published
   * or removed in a store that does not check this itself.
   */
  readonly confirmChief?: () => Promise<void>;
  /** The job that saves, for the manifest. */
  readonly job?: string;
  readonly now: () => number;
  readonly log?: Log;
  /** Serializes saves: an owner holds one snapshot at a time. */
  readonly inTurn?: <T>(work: () => Promise<T>) => Promise<T>;
}

/** Keeps the workers paused after the snapshot. */
export interface Hold {
  /** The longest time that they stay paused. */
  readonly ms: number;
  /** Resolves when they may resume. A save that fails resumes them at once. */
  readonly until: Promise<void>;
}

export interface SaveRequest {
  /** The variables to save, by owner. */
  readonly variables: ReadonlyMap<string, readonly SavedVariable[]>;
  /** Called while the workers are paused. */
  readonly step: () => Promise<SavedStep>;
  /** E.g. `model.ckpt`; the step is appended. */
  readonly basename: string;
  readonly consistency: Consistency;
  /** Rejects if no checkpoint may have this prefix; called before anything is written. */
  readonly checkPrefix?: (prefix: string) => Promise<void>;
  readonly meta?: () => Uint8Array;
  /** The input state; called while the workers are paused. */
  readonly input?: () => unknown;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: SaveProgress) => void;
  /** How long workers may take to pause; default: that of `PauseControl`. */
  readonly pauseTimeoutMs?: number;
  readonly snapshotMs?: number;
  /** Default: the workers resume after the snapshot. */
  readonly hold?: Hold;
  /** Whether every copy of a shard is read back from its disk before the commit; default: true. */
  readonly readBack?: boolean;
  /** A write without progress for this long fails. */
  readonly stallMs?: number;
}

/** The step of a snapshot. */
export interface SavedStep {
  /** The number of the checkpoint. */
  readonly step: number;
  /** The global step of the values, if that is known. */
  readonly globalStep?: number;
}

export interface SaveProgress {
  readonly phase: string;
  readonly bytes: number;
  readonly total: number;
}

export interface SaveOutcome {
  readonly manifest: Manifest;
  /** How long the workers were paused, in milliseconds. */
  readonly pausedMs: number;
  /** How many requested copies could not be made. */
  readonly shortfall: number;
}

export interface SequenceOptions {
  /** The highest sequence attempted by this incarnation of the chief; undefined before its first save. */
  readonly above?: number;
  readonly onSequence?: (sequence: number) => void;
}

export async function save(
  context: SaveContext,
  request: SaveRequest,
  { above, onSequence }: SequenceOptions = {},
): Promise<SaveOutcome> {
  const { store, namespace, pauseControl, inTurn = (work) => work() } = context;
  return inTurn(async () => {
    request.signal?.throwIfAborted();
    if (request.consistency === 'consistent') await pauseControl?.check?.({ signal: request.signal });
    // Attempts of earlier incarnations of the chief are looked up once: they begin no new ones.
    const incarnation = above === undefined ? context.chief.incarnation : undefined;
    const next = await nextSequence(store, namespace, { signal: request.signal, incarnation });
    const sequence = Math.max((above ?? 0) + 1, next);
    onSequence?.(sequence);
    return new Save(context, request, sequence).run();
  });
}

class Save {
  readonly #context: SaveContext;
  readonly #request: SaveRequest;
  readonly #sequence: number;
  readonly #attempt: string;
  readonly #stop = new AbortController();
  readonly #cleanUp: Promise<unknown>[] = [];
  /** Running puts. The cleanup waits for them, or it would miss what they publish. */
  readonly #puts: Promise<unknown>[] = [];
  readonly #bytes = new Map<string, number>();
  readonly #finished: Promise<void>;
  #finish = () => {};
  #state: Commit<WrittenShard>;
  #effects: readonly CommitEffect<WrittenShard>[];
  #timer: NodeJS.Timeout | undefined;
  #step = 0;
  #globalStep: number | undefined;
  #input: unknown = null;
  #total = 0;
  /** Besides the shards. */
  readonly #files: ManifestFile[] = [];
  #tensors = 0;
  #manifest: Manifest | undefined;
  #pausedAt = 0;
  #pausedMs = 0;

  constructor(context: SaveContext, request: SaveRequest, sequence: number) {
    this.#context = context;
    this.#request = request;
    this.#sequence = sequence;
    this.#attempt = newAttempt({ incarnation: context.chief.incarnation, sequence });
    const owners = [...request.variables.keys()];
    const workers = request.consistency === 'consistent' ? (context.pauseControl?.workers() ?? []) : [];
    const { state, effects } = beginCommit<WrittenShard>(owners, workers);
    this.#state = state;
    this.#effects = effects;
    // Every part and every copy of the save adds a listener.
    setMaxListeners(0, this.#stop.signal);
    this.#finished = new Promise((resolve) => {
      this.#finish = resolve;
    });
  }

  async run(): Promise<SaveOutcome> {
    const { signal } = this.#request;
    const onAbort = () => this.#tell({ type: 'failed', error: signal?.reason });
    signal?.addEventListener('abort', onAbort, { once: true });
    const unwatch = this.#context.watch?.(({ type, task }) => this.#tell({ type, task }));
    try {
      this.#perform(this.#effects);
      if (signal?.aborted) onAbort();
      await this.#finished;
    } finally {
      clearTimeout(this.#timer);
      signal?.removeEventListener('abort', onAbort);
      unwatch?.();
      await Promise.allSettled(this.#cleanUp);
    }
    const { phase, error, shards } = this.#state;
    if (phase !== 'committed' || !this.#manifest) throw error;
    const shortfall = [...shards.values()].reduce((sum, shard) => sum + shard.shortfall, 0);
    return { manifest: this.#manifest, pausedMs: this.#pausedMs, shortfall };
  }

  #tell(event: CommitEvent<WrittenShard>): void {
    const before = this.#state.phase;
    const { state, effects } = reduceCommit(this.#state, event);
    this.#state = state;
    if (state.phase === 'failed' && before !== 'failed') this.#stop.abort(state.error);
    this.#perform(effects);
    if (state.phase === 'committed' || state.phase === 'failed') this.#finish();
  }

  /** Starts work whose failure fails the save. */
  #begin(work: Promise<CommitEvent<WrittenShard>>): void {
    this.#puts.push(work);
    work.then(
      (event) => this.#tell(event),
      (error: unknown) => this.#tell({ type: 'failed', error }),
    );
  }

  /** Starts work that the save waits for at its end. A failure is only logged: leases clean up after lost tasks. */
  #runUngated(work: Promise<unknown>, problem: string): void {
    this.#cleanUp.push(
      work.catch((error: unknown) => this.#context.log?.(`${problem}: ${firstLineOf(error)}`)),
    );
  }

  #deadline(ms: number, what: string): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      const { waiting } = this.#state;
      const error = new ShoalError(
        'SHOAL_TIMEOUT',
        `${waiting.join(', ')} did not ${what} within ${Math.round(ms)} ms`,
      );
      this.#tell({ type: 'failed', error });
    }, ms);
  }

  #perform(effects: readonly CommitEffect<WrittenShard>[]): void {
    for (const effect of effects) {
      switch (effect.type) {
        case 'pause':
          this.#pause(effect.workers);
          break;
        case 'snapshot':
          this.#snapshot(effect.owners);
          break;
        case 'resume':
          this.#resume(effect.workers);
          break;
        case 'write':
          this.#write(effect.owners);
          break;
        case 'write-index':
          clearTimeout(this.#timer);
          this.#begin(this.#writeIndex(effect.shards));
          break;
        case 'write-manifest':
          this.#begin(this.#writeManifest());
          break;
        case 'drop':
          for (const owner of effect.owners) {
            this.#runUngated(
              this.#context.owner(owner).drop(this.#attempt),
              `${owner} could not drop its snapshot`,
            );
          }
          break;
        case 'discard':
          this.#runUngated(this.#discard(), 'files of a failed save could not be removed');
          break;
      }
    }
  }

  #pause(workers: readonly string[]): void {
    const { pauseControl } = this.#context;
    const {
      pauseTimeoutMs = pauseControl?.pauseTimeoutMs?.() ?? 15_000,
      snapshotMs = 60_000,
      hold,
    } = this.#request;
    const leaseMs = pauseTimeoutMs + snapshotMs + 5_000 + (hold?.ms ?? 0);
    this.#pausedAt = performance.now();
    this.#deadline(pauseTimeoutMs, 'pause');
    const { signal } = this.#stop;
    const ready = (async () => {
      await faultPoint('checkpoint.pause');
      return pauseControl!.atStep?.();
    })();
    for (const worker of workers) {
      this.#begin(
        (async () => {
          const atStep = await ready;
          // No one would end a pause that begins after the save was aborted.
          signal.throwIfAborted();
          const token = this.#attempt;
          await pauseControl!.pause(worker, { token, leaseMs, atStep, signal, holds: hold !== undefined });
          return { type: 'paused', worker } as const;
        })().catch((error: unknown) => {
          // The watch has reported the worker as lost: the save no longer waits for it.
          if (!this.#state.waiting.includes(worker)) return { type: 'paused', worker } as const;
          throw error;
        }),
      );
    }
  }

  #snapshot(owners: readonly string[]): void {
    const { snapshotMs = 60_000 } = this.#request;
    this.#deadline(snapshotMs, 'take a snapshot');
    const state = (async () => {
      const { step, globalStep } = await this.#request.step();
      this.#step = step;
      this.#globalStep = globalStep;
      this.#input = this.#request.input?.() ?? null;
    })();
    for (const owner of owners) {
      this.#begin(
        (async () => {
          const variables = [...(this.#request.variables.get(owner) ?? [])];
          const { signal } = this.#stop;
          const taken = this.#context
            .owner(owner)
            .snapshot({ attempt: this.#attempt, variables }, { signal });
          // In parallel: the workers are paused meanwhile.
          const [{ bytes }] = await Promise.all([taken, state]);
          this.#total += bytes;
          return { type: 'snapshotted', owner } as const;
        })(),
      );
    }
  }

  #resume(workers: readonly string[]): void {
    this.#pausedMs = performance.now() - this.#pausedAt;
    const { hold } = this.#request;
    const resume = () => {
      for (const worker of workers)
        this.#runUngated(
          this.#context.pauseControl!.resume(worker, this.#attempt),
          `${worker} could not be resumed`,
        );
    };
    if (!hold) {
      resume();
      return;
    }
    // The save does not wait for the end of the hold.
    const failed = this.#finished.then(() => (this.#state.phase === 'failed' ? undefined : hold.until));
    void Promise.race([hold.until, failed]).then(resume);
  }

  get #prefix(): string {
    return `${this.#request.basename}-${this.#step}`;
  }

  get #name() {
    return { prefix: this.#prefix, attempt: this.#attempt };
  }

  #write(owners: readonly string[]): void {
    const { stallMs = 300_000, onProgress, checkPrefix, readBack = true } = this.#request;
    const { store, namespace } = this.#context;
    this.#deadline(stallMs, 'write anything');
    const checked = checkPrefix?.(this.#prefix) ?? Promise.resolve();
    owners.forEach((owner, shard) => {
      const progress = (bytes: number) => {
        if (this.#state.phase !== 'writing' || bytes <= (this.#bytes.get(owner) ?? 0)) return;
        this.#bytes.set(owner, bytes);
        this.#deadline(stallMs, 'write anything more');
        const sum = [...this.#bytes.values()].reduce((a, b) => a + b, 0);
        onProgress?.({ phase: 'writing', bytes: sum, total: this.#total });
      };
      const shards = owners.length;
      const request = { ...this.#name, namespace, store: store.url, shard, shards, readBack };
      this.#begin(
        checked
          .then(() =>
            this.#context.owner(owner).write(request, { signal: this.#stop.signal, onProgress: progress }),
          )
          .then((written) => ({ type: 'written', owner, shard: written }) as const),
      );
    });
  }

  async #writeIndex(shards: readonly WrittenShard[]): Promise<CommitEvent<WrittenShard>> {
    const parts = shards.map(({ index, file }) => readIndexFile(Buffer.from(index, 'base64'), file.file));
    const merged = mergeBundleIndexes(parts);
    this.#tensors = merged.tensors.size;
    await faultPoint('checkpoint.index.before');
    const meta = this.#request.meta?.();
    const index = writeIndexFile(merged);
    const input = this.#encodeInput(crc32c(index));
    const puts = await Promise.allSettled([
      this.#put(indexFile(this.#prefix), index),
      ...(meta ? [this.#put(`${this.#prefix}.meta`, meta)] : []),
      ...(input ? [this.#put(inputFile(this.#prefix), input)] : []),
    ]);
    // All puts have ended before this throws, so the cleanup can remove what they wrote.
    for (const put of puts) {
      if (put.status === 'rejected') throw put.reason;
      this.#files.push(put.value);
    }
    await faultPoint('checkpoint.index.after');
    return { type: 'indexed' };
  }

  #encodeInput(index: number): Uint8Array | undefined {
    return this.#input === null ? undefined : encodeInput({ index, state: this.#input }, this.#prefix);
  }

  async #put(file: string, bytes: Uint8Array): Promise<ManifestFile> {
    const { store, namespace } = this.#context;
    const { signal } = this.#stop;
    const { places } = await store.put(fileBlob(namespace, this.#name, file), bytes, {
      signal,
      copies: 'everywhere',
      isNew: true,
    });
    return manifestFile(file, bytes, places);
  }

  async #writeManifest(): Promise<CommitEvent<WrittenShard>> {
    const { store, namespace, chief, now, job } = this.#context;
    const { signal } = this.#stop;
    const shards = this.#state.owners.map((owner) => this.#state.shards.get(owner) as WrittenShard);
    const files = shards.map(({ file }) => file);
    // Only the shards are checked: this task has just put index and graph.
    const { missing } = await healthOf(store, namespace, { ...this.#name, files }, { signal });
    if (missing.length > 0) {
      throw new ShoalError(
        'SHOAL_UNREACHABLE',
        `The checkpoint was not saved: no copy of ${missing.join(', ')} is left`,
        { hint: 'The only task that held it was lost, or another chief removed it.' },
      );
    }
    const hasInput = this.#input !== null;
    const manifest: Manifest = {
      format: 'shoal-checkpoint',
      // Without a feature of version 2, earlier releases can read it.
      version: hasInput ? 2 : 1,
      release: RELEASE,
      sequence: this.#sequence,
      step: this.#step,
      globalStep: this.#globalStep,
      ...this.#name,
      savedAtMs: now(),
      job,
      consistency: this.#request.consistency,
      chief: { task: chief.task, incarnation: chief.incarnation },
      shards: this.#state.owners.length,
      tensors: this.#tensors,
      files: [...files, ...this.#files],
      replicas: Math.max(0, ...shards.map(({ file, shortfall }) => file.places.length - 1 + shortfall)),
      ...(hasInput ? { inputFile: inputFile(this.#prefix) } : { input: null }),
    };
    const bytes = encodeManifest(manifest);
    await this.#context.confirmChief?.();
    await faultPoint('checkpoint.manifest.before');
    await store.put(manifestBlob(namespace, manifest), bytes, {
      signal,
      copies: 'everywhere',
      isNew: true,
    });
    this.#manifest = manifest;
    await faultPoint('checkpoint.manifest.after');
    return { type: 'published' };
  }

  /** Files on unreachable tasks remain, and are removed by a later save. */
  async #discard(): Promise<void> {
    const { store, namespace } = this.#context;
    await Promise.allSettled(this.#puts);
    const folder = fileBlob(namespace, this.#name, '');
    const names: string[] = [];
    for await (const { name } of store.list(folder)) names.push(name);
    for (const name of names) await store.remove(name);
  }
}
