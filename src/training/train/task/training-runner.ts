/** The session and saver interfaces that training depends on. */
import type { Hold, PauseControl } from '../../../distributed/checkpoint/protocol/save.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Runner } from '../../../tensorflow/session/runner.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import type { RecoveryGuard } from '../recovery/recovery-guard.js';
import type { RecoveryReport } from '../recovery/recovery-report.js';
import type { Gathering } from './gathering.js';
import type { Server } from './server.js';

/** Input whose state is part of each checkpoint. */
export interface CheckpointedInput {
  /** Resolves when a snapshot can be taken. */
  settled(signal?: AbortSignal): Promise<void>;
  /** The current state; called while all workers are paused. */
  snapshot(): unknown;
  /** Called when the model was restored from a checkpoint with this state. */
  restored(state: unknown): void;
}

/** A session: local, or over a cluster. */
export interface TrainingRunner extends Runner {
  readonly graph: Graph;
  /** Runs that are not training steps and survive the loss of a ps; default: this session. */
  readonly background?: TrainingRunner;
  /** The step counter that the program has chosen; default: that of the graph. */
  readonly globalStep?: Variable | undefined;
  /** The server of this task; undefined without a cluster. */
  readonly server?: Server;
  /** Prevents saves during recoveries; undefined without recoveries. @internal */
  readonly recoveryGuard?: RecoveryGuard;
  /**
   * Recovers the cluster after an error of a run that is not a training step. The steps of this task that are running end,
   * and are made again. Undefined without a cluster. @internal
   */
  readonly recover?: (error: unknown) => Promise<void>;
  /**
   * Ends the runs of this task that were given up, on the ps too. Undefined if nothing is left of a run whose signal has
   * fired. @internal
   */
  readonly endRuns?: (why: string) => Promise<void>;
  /** Describes recoveries; undefined without a cluster. @internal */
  readonly recoveryReport?: RecoveryReport;
  /** Pauses the steps of this process during a snapshot; undefined on a cluster, which has its own. @internal */
  readonly pauseControl?: PauseControl;
  /** Makes checkpoints complete on this disk; undefined outside of training. @internal */
  readonly gathering?: Gathering;
  /** The input state in each checkpoint; undefined unless this task keeps the ledger of leased input. @internal */
  readonly input?: CheckpointedInput;
}

export interface SaverLike {
  /**
   * Saves; resolves with the path (`dir/model.ckpt-N`) when the checkpoint is committed. N is `globalStep`; default:
   * the global step of the snapshot. If files that the saver did not write have that path, the save fails with
   * SHOAL_ALREADY_EXISTS; with `mayHide` the checkpoint is written to the store only. With `hold` the workers stay
   * paused after the snapshot. With `attempts: 1` the caller retries.
   */
  save(
    session: TrainingRunner,
    path: string,
    options?: {
      globalStep?: number;
      signal?: AbortSignal;
      mayHide?: boolean;
      hold?: Hold;
      attempts?: number;
    },
  ): Promise<string>;
  /**
   * Restores every variable of the graph; with `partial` only those of tasks that hold `missing` variables. Tasks that
   * hold `missing` variables are restored last.
   */
  restore(
    session: TrainingRunner,
    path: string,
    options?: { signal?: AbortSignal; missing?: readonly Variable[]; partial?: boolean },
  ): Promise<unknown>;
  /** Restores the newest complete checkpoint; resolves with undefined if there is no checkpoint. */
  restoreNewest?(
    session: TrainingRunner,
    directory: string,
    options?: { signal?: AbortSignal; missing?: readonly Variable[]; partial?: boolean },
  ): Promise<unknown>;
  /** The path of the newest committed checkpoint of the directory, wherever its bytes are. */
  latest(
    session: TrainingRunner,
    directory: string,
    options?: { signal?: AbortSignal },
  ): Promise<string | undefined>;
  /** The global step of the newest checkpoint that the tasks which answer have, if it is known. @internal */
  newestStep?(session: TrainingRunner, directory: string): Promise<number | undefined>;
  /** Removes old checkpoints, if no save has done so. */
  tidy?(session: TrainingRunner, directory: string): Promise<void>;
  /** Protects checkpoints from removal. */
  pin?(session: TrainingRunner, paths: readonly string[]): Promise<void>;
}
