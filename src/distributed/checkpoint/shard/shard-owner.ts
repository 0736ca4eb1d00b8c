/** What the chief asks of a process that holds variables: itself, or another one through orders. */
import * as v from 'valibot';
import { validated } from '../../cluster/agent/wire.js';
import type { TaskId } from '../../cluster/spec/task-id.js';
import type { ClusterTask } from '../../cluster/task/cluster-task.js';
import { giveLongOrder } from '../../cluster/task/long-order.js';
import type { OrderedBy } from '../../store/store.js';
import { ManifestSchema } from '../format/manifest.js';
import { newAttempt } from '../format/names.js';
import { SavedVariableSchema } from '../format/saved-variable.js';

const Text = v.pipe(v.string(), v.maxLength(4096));
const Count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));

export const SnapshotSchema = v.object({ attempt: Text, variables: v.array(SavedVariableSchema) });
export const WriteSchema = v.object({
  attempt: Text,
  prefix: Text,
  namespace: Text,
  store: Text,
  shard: Count,
  shards: Count,
  /** Whether every copy is read back from its disk; default: true. */
  readBack: v.optional(v.boolean(), true),
});
export const DropSchema = v.object({ attempt: Text });
export const RestoreSchema = v.object({
  manifest: ManifestSchema,
  namespace: Text,
  store: Text,
  variables: v.array(SavedVariableSchema),
});

export type SnapshotRequest = v.InferOutput<typeof SnapshotSchema>;
export type ShardWriteRequest = v.InferInput<typeof WriteSchema>;
export type ShardRestoreRequest = v.InferOutput<typeof RestoreSchema>;

const WrittenSchema = v.object({
  file: ManifestSchema.entries.files.item,
  /** The index of this shard alone, as an index file in base64. */
  index: v.string(),
  shortfall: Count,
});
const SnapshotAnswer = v.object({ bytes: Count });
const RestoredSchema = v.object({
  bytesRead: Count,
  notices: v.array(v.string()),
  /** Why the checkpoint could not be read. Some variables may already have its values. */
  damage: v.optional(v.string()),
});

export type WrittenShard = v.InferOutput<typeof WrittenSchema>;
export type RestoredShard = v.InferOutput<typeof RestoredSchema>;

export interface OwnerOptions {
  readonly signal?: AbortSignal;
  /** Bytes written or read so far. */
  readonly onProgress?: (bytes: number) => void;
  /** The chief that gave the order, if it is another task. */
  readonly orderedBy?: OrderedBy;
}

export interface ShardOwner {
  /** Takes references to the current values of the variables and keeps them. */
  snapshot(request: SnapshotRequest, options?: OwnerOptions): Promise<{ readonly bytes: number }>;
  /** Streams the snapshot to the store, reads it back unless the request declines that, and releases it. */
  write(request: ShardWriteRequest, options?: OwnerOptions): Promise<WrittenShard>;
  /** Releases the snapshot of an attempt, if there is one. */
  drop(attempt: string, options?: OwnerOptions): Promise<void>;
  /** Restores variables from a checkpoint. */
  restore(request: ShardRestoreRequest, options?: OwnerOptions): Promise<RestoredShard>;
}

export const ORDERS = {
  snapshot: 'checkpoint-snapshot',
  write: 'checkpoint-write',
  drop: 'checkpoint-drop',
  restore: 'checkpoint-restore',
} as const;

/** An owner in another process, called through orders. If it is lost, calls fail at once. */
export class RemoteOwner implements ShardOwner {
  readonly #task: ClusterTask;
  readonly #owner: TaskId;

  constructor(task: ClusterTask, owner: TaskId) {
    this.#task = task;
    this.#owner = owner;
  }

  async snapshot(request: SnapshotRequest, options: OwnerOptions = {}) {
    return validated(SnapshotAnswer, await this.#long(ORDERS.snapshot, request, options), this.#what);
  }

  async write(request: ShardWriteRequest, options: OwnerOptions = {}): Promise<WrittenShard> {
    return validated(WrittenSchema, await this.#long(ORDERS.write, request, options), this.#what);
  }

  async drop(attempt: string, { signal }: OwnerOptions = {}): Promise<void> {
    await this.#task.order(this.#owner, ORDERS.drop, { attempt }, { timeoutMs: 5000, signal });
  }

  async restore(request: ShardRestoreRequest, options: OwnerOptions = {}): Promise<RestoredShard> {
    return validated(RestoredSchema, await this.#long(ORDERS.restore, request, options), this.#what);
  }

  get #what(): string {
    return `answer of ${this.#owner}`;
  }

  #long(name: string, payload: unknown, options: OwnerOptions): Promise<unknown> {
    return giveLongOrder(this.#task, this.#owner, name, newAttempt(), payload, options);
  }
}
