/** What training needs of a saver and of a session: the saver itself stands apart. */
import type { Server } from '../../cluster/runtime/server.js';
import type { Graph } from '../../graph/graph.js';
import type { Fetches, FetchResult } from '../../session/fetches.js';
import type { RunOptions } from '../../session/session.js';
import type { Variable } from '../../variables/variable.js';
import type { RecoveryGuard } from './recovery-guard.js';

/** Input whose state is part of each checkpoint. */
export interface CheckpointedInput {
  /** Resolves when the state can be told. */
  settled(signal?: AbortSignal): Promise<void>;
  /** The state of the moment, while all workers rest. */
  cut(): unknown;
  /** The model is that of a checkpoint with this state. */
  restored(state: unknown): void;
}

/** A session: local, or over a cluster. */
export interface TrainingRunner {
  readonly graph: Graph;
  run<const F extends Fetches>(fetches: F, options?: RunOptions): Promise<FetchResult<F>>;
  /** This task's place in the cluster; none where there is no cluster. */
  readonly server?: Server;
  /** TensorFlow's session of the moment, where one follows another. */
  now?(): Pick<TrainingRunner, 'run'> | undefined;
  /** Keeps saves apart from recoveries; none where nothing recovers. */
  readonly recoveryGuard?: RecoveryGuard;
  /** What of the input belongs into each checkpoint; none unless this task keeps the ledger of leased input. */
  readonly input?: CheckpointedInput | undefined;
}

export interface SaverLike {
  /**
   * Saves; resolves with the path (`dir/model.ckpt-N`) when the checkpoint is committed. N is the global step at the
   * moment that is saved, unless told. Where files that the saver did not write have that path, the save fails with
   * SHOAL_ALREADY_EXISTS; with `mayHide` the checkpoint is kept in the store alone.
   */
  save(
    session: TrainingRunner,
    path: string,
    options?: { globalStep?: number; signal?: AbortSignal; mayHide?: boolean },
  ): Promise<string>;
  /** Gives every variable of the graph its value from the checkpoint; tasks with `missing` ones come last. */
  restore(
    session: TrainingRunner,
    path: string,
    options?: { signal?: AbortSignal; missing?: readonly Variable[] },
  ): Promise<unknown>;
  /** The same from the newest checkpoint that is whole; undefined when there is none at all. */
  restoreNewest?(
    session: TrainingRunner,
    directory: string,
    options?: { signal?: AbortSignal; missing?: readonly Variable[] },
  ): Promise<unknown>;
  /** The newest committed checkpoint below the directory, wherever its bytes are. */
  latest(
    session: TrainingRunner,
    directory: string,
    options?: { signal?: AbortSignal },
  ): Promise<string | undefined>;
  /** Removes what is not to be kept, where no save has done so. */
  tidy?(session: TrainingRunner, directory: string): Promise<void>;
  /** Checkpoints that stay whatever their age. */
  pin?(session: TrainingRunner, paths: readonly string[]): Promise<void>;
}
