/** The options of a saver and of its calls. */

import type { Log } from '../../../base/text/log.js';
import type { WhenBusy } from '../../../distributed/checkpoint/checkpoints.js';
import type { GatherMode } from '../../../distributed/checkpoint/directory/gather.js';
import type { Consistency } from '../../../distributed/checkpoint/format/consistency.js';
import type { Hold, SaveProgress } from '../../../distributed/checkpoint/protocol/save.js';
import type { FoundEnd } from '../../../distributed/checkpoint/reading/end-record.js';
import type { OutputLike } from '../../../tensorflow/graph/operation.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { PartitionedVariable } from '../../../tensorflow/variables/partitioned.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import type { TrainingRunner } from '../task/training-runner.js';

export type VarList =
  | readonly (Variable | PartitionedVariable)[]
  | Readonly<Record<string, Variable | PartitionedVariable | readonly Variable[]>>;

export interface SaverOptions {
  /** The variables to save and restore: a list, or by their names in the checkpoint. Default: all global variables. */
  readonly varList?: VarList;
  /** The number of newest checkpoints to keep; 0 keeps all. Default: 5. */
  readonly maxToKeep?: number;
  /** Additionally keeps one checkpoint per this many hours for good. Default: none. */
  readonly keepCheckpointEveryNHours?: number;
  /** Has no effect: shards follow the tasks that hold the variables. */
  readonly sharded?: boolean;
  /**
   * `consistent`: workers pause, all values are of one moment. `relaxed`: as in TensorFlow, without a pause. Default:
   * `consistent`.
   */
  readonly consistency?: Consistency;
  /** How long workers may take to pause at the end of a step; default: derived from the durations of recent steps. */
  readonly pauseTimeoutSecs?: number;
  /** Where checkpoints are kept: `peers:`, or `file:` and a directory that all tasks see. Default: `peers:`. */
  readonly store?: string;
  /** In one process: the directory of the `peers:` store. Default: the directory that is saved to. */
  readonly blobs?: string;
  /** The prefix of blob names. Default: derived from the directory on a cluster, none in one process. */
  readonly namespace?: string;
  /** The name of the job, written into every checkpoint; checkpoints of another job are not restored. Default: none. */
  readonly job?: string;
  /** Finds the record of the end of training, which says which checkpoint is the newest. Default: none. @internal */
  readonly findEnd?: (session: TrainingRunner, signal?: AbortSignal) => Promise<FoundEnd | undefined>;
  /** Called before old checkpoints are removed, to pin some of them. Default: none. @internal */
  readonly beforeRemoval?: () => Promise<void>;
  /**
   * How long a restore waits for missing tasks: for all of them until the newest checkpoint is known, then for those
   * that hold it. Default: 120,000.
   */
  readonly waitMs?: number;
  /** Whether variables that a checkpoint does not have are an error. Default: true. */
  readonly strict?: boolean;
  /** Whether a `.meta` file is written with each checkpoint. Default: true. */
  readonly writeMetaGraph?: boolean;
  /** Whether a save that is requested during another one waits for it or is skipped. Default: 'queue'. */
  readonly whenBusy?: WhenBusy;
  /**
   * On a cluster: which checkpoints become complete in their directory on this task, with the data files from the disks
   * of the other tasks. `last`: the newest, when training ends or the server is closed. `all`: each one, in the
   * background after its save, and removed with it. `none`: see `shoal checkpoint pull`. Default: `last`.
   */
  readonly gather?: GatherMode;
  /** Receives log lines; default: none. */
  readonly log?: Log;
  /** Receives the progress of saves; default: none. */
  readonly onProgress?: (progress: SaveProgress) => void;
  /**
   * The state of the input that belongs to a checkpoint; read while the workers are paused. Default: that of the
   * session.
   */
  readonly input?: () => unknown;
}

export interface RestoreOptions {
  /** Cancels the restore; default: none. */
  readonly signal?: AbortSignal;
  /** Variables that have no value: the tasks that hold them are restored after all others. Default: none. */
  readonly missing?: readonly Variable[];
  /** Whether only the tasks that hold `missing` variables are restored. Default: false. */
  readonly partial?: boolean;
}

export interface SaveOptions {
  /** Cancels the save; default: none. */
  readonly signal?: AbortSignal;
  /** The number appended to the path, or what has it. Default: the global step of the snapshot. */
  readonly globalStep?: number | bigint | Tensor | OutputLike | null;
  /** See `SaverLike.save`; default: false. */
  readonly mayHide?: boolean;
  /** Keeps the workers paused after the snapshot; default: they resume. @internal */
  readonly hold?: Hold;
  /** How often it is attempted; 1 if the caller retries. Default: 3. @internal */
  readonly attempts?: number;
}
