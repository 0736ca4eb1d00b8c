/**
 * Hooks of a monitored session: a hook adds fetches and feeds to each run, gets their values, and may request a stop.
 * A hook implements any of these methods, as an object or as a subclass.
 *
 *   begin → afterCreateSession → (beforeRun → afterRun)* → end
 *
 * After a recovery `afterCreateSession` is called again, and the step that failed begins again with `beforeRun`.
 * `end` is not called when training failed.
 */

import type { RunMetadata } from '../../../base/proto/generated/config_pb.js';
import type { Log } from '../../../base/text/log.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Feeds } from '../../../tensorflow/session/feeds.js';
import type { Fetches } from '../../../tensorflow/session/fetches.js';
import type { AdmittedRun, LeasedInput } from '../leases/leased-input.js';
import type { ShardParts } from '../leases/shard-parts.js';
import type { Coordinator } from '../recovery/coordinator.js';
import type { TrainingRunner } from '../task/training-runner.js';
import type { SummaryWriters } from './summary-writers.js';

/** Passed to `begin`, which may still add to the graph. */
export interface HookSetup {
  readonly graph: Graph;
  readonly writers: SummaryWriters;
  readonly log: Log;
  /** The task that trains, for messages; default: none, there is no cluster. */
  readonly task?: string;
  /** Aborted when training is interrupted; default: it cannot be. */
  readonly signal?: AbortSignal;
}

/** What a hook adds to the run that follows. */
export interface SessionRunArgs {
  /** What to fetch in addition; default: none. */
  readonly fetches?: Fetches;
  /** What to feed in addition; default: none. */
  readonly feeds?: Feeds;
  /** Requests a trace of the run from TensorFlow; default: false. */
  readonly trace?: boolean;
}

export interface SessionRunValues<R = unknown> {
  /** The values of the hook's fetches, in the same nesting; undefined if it had none. */
  readonly results: R;
  /** The trace, if any hook requested one. */
  readonly metadata: RunMetadata | undefined;
}

/** One run, from `beforeRun` to `afterRun`. Several may be in flight. */
export class SessionRunContext {
  /** The underlying session: its runs call no hooks and are not training steps. */
  readonly session: TrainingRunner;
  readonly originalArgs: SessionRunArgs;
  /** Aborted when training is to stop. */
  readonly signal: AbortSignal;
  #stopRequested = false;

  constructor(session: TrainingRunner, originalArgs: SessionRunArgs, signal: AbortSignal) {
    this.session = session;
    this.originalArgs = originalArgs;
    this.signal = signal;
  }

  get stopRequested(): boolean {
    return this.#stopRequested;
  }

  /** Stops training after this run. */
  requestStop(): void {
    this.#stopRequested = true;
  }
}

export type MaybePromise<T> = T | Promise<T>;

export class SessionRunHook<R = unknown> {
  begin?(setup: HookSetup): MaybePromise<void>;
  afterCreateSession?(session: TrainingRunner, coordinator: Coordinator): MaybePromise<void>;
  // biome-ignore lint/suspicious/noConfusingVoidType: a hook without fetches returns nothing
  beforeRun?(context: SessionRunContext): MaybePromise<SessionRunArgs | undefined | void>;
  afterRun?(context: SessionRunContext, values: SessionRunValues<R>): MaybePromise<void>;
  end?(session: TrainingRunner): MaybePromise<void>;
  /** How much longer than others its `end` may take; default: 0. @internal */
  readonly endMs?: number;
  /** Whether its `end` saves a checkpoint, which must contain the last steps of all workers; default: false. */
  readonly savesLast?: boolean;
  /** Leased input that the session opens for this hook. @internal */
  readonly shards?: ShardParts;
  /** The maximum number of runs in flight that use it. @internal */
  readonly slots?: number;
  /** Called when the leased input is open. @internal */
  inputOpened?(leased: LeasedInput): void;
  /** Acquires what a run needs before it starts; called after `beforeRun`. @internal */
  admitRun?(fetches: Fetches, signal: AbortSignal): MaybePromise<AdmittedRun | undefined>;
}
