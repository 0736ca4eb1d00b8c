/**
 * What may take part in a monitored session: a hook adds fetches and feeds to each run, sees their values, and may
 * ask for an end. A hook has any of these methods, as an object or as a class that extends this one.
 *
 *   begin → afterCreateSession → (beforeRun → afterRun)* → end
 *
 * After a recovery `afterCreateSession` is called again, and the step that failed begins again with `beforeRun`.
 * `end` is not called when training failed.
 */
import type { Graph } from '../../graph/graph.js';
import type { RunMetadata } from '../../proto/generated/config_pb.js';
import type { Feeds } from '../../session/feeds.js';
import type { Fetches } from '../../session/fetches.js';
import type { Coordinator } from '../recovery/coordinator.js';
import type { TrainingRunner } from '../recovery/training-runner.js';
import type { SummaryWriters } from './summary-writers.js';

/** What a hook is given before the graph is used: it may still add to it. */
export interface HookSetup {
  readonly graph: Graph;
  readonly writers: SummaryWriters;
  readonly log: (line: string) => void;
}

/** What a hook wants of the run that follows. */
export interface SessionRunArgs {
  readonly fetches?: Fetches;
  readonly feeds?: Feeds;
  /** Asks TensorFlow for a trace of the run. */
  readonly trace?: boolean;
}

export interface SessionRunValues<R = unknown> {
  /** The values of what the hook asked for, in the same nesting; undefined if it asked for nothing. */
  readonly results: R;
  /** The trace, where any hook asked for one. */
  readonly metadata: RunMetadata | undefined;
}

/** One run, from `beforeRun` to `afterRun`. Several may be under way at once. */
export class SessionRunContext {
  /** The session itself: its runs call no hooks and are no training steps. */
  readonly session: TrainingRunner;
  readonly originalArgs: SessionRunArgs;
  /** Fires when training is to end. */
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

  /** Ends training after this run. */
  requestStop(): void {
    this.#stopRequested = true;
  }
}

type MaybePromise<T> = T | Promise<T>;

export class SessionRunHook<R = unknown> {
  begin?(setup: HookSetup): MaybePromise<void>;
  afterCreateSession?(session: TrainingRunner, coordinator: Coordinator): MaybePromise<void>;
  // biome-ignore lint/suspicious/noConfusingVoidType: a hook that wants nothing returns nothing
  beforeRun?(context: SessionRunContext): MaybePromise<SessionRunArgs | undefined | void>;
  afterRun?(context: SessionRunContext, values: SessionRunValues<R>): MaybePromise<void>;
  end?(session: TrainingRunner): MaybePromise<void>;
}
