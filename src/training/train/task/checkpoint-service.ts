/**
 * The checkpoint service of a task. Every task stores blobs for the others. A task that holds variables takes snapshots
 * of them, writes and restores them on the chief's orders. A worker pauses between steps when the chief requests it.
 * The chief's saver reaches all tasks through its own service.
 */
import { resolve } from 'node:path';
import { serialQueue } from '../../../base/async/serial-queue.js';
import { isShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { SaveContext, Watch } from '../../../distributed/checkpoint/protocol/save.js';
import { RemoteOwner, type ShardOwner } from '../../../distributed/checkpoint/shard/shard-owner.js';
import { ShardService } from '../../../distributed/checkpoint/shard/shard-service.js';
import { ServerVariables } from '../../../distributed/checkpoint/shard/variable-access.js';
import { isPresent } from '../../../distributed/cluster/membership/types.js';
import type { ClusterServer } from '../../../distributed/cluster/runtime/cluster-server.js';
import { isTaskId, type TaskId, trains } from '../../../distributed/cluster/spec/task-id.js';
import { sweepHourly, sweepOwn } from '../../../distributed/store/disk/sweeping.js';
import type { Store } from '../../../distributed/store/store.js';
import { LastSteps } from '../recovery/steps/last-steps.js';
import { VariableGatherer } from './gather-variables.js';
import { Gathering } from './gathering.js';
import { LeavingSave } from './leaving-save.js';
import { SharedStepAlarm } from './shared-step-alarm.js';
import { StepPauses } from './step-pauses.js';
import { TaskStores } from './task-stores.js';

export interface CheckpointServiceOptions {
  /** The directory whose blobs the agent serves. */
  readonly directory: string;
  /** The number of copies of every shard on other hosts; default: 1. */
  readonly replicas?: number;
  /** Called when this task has written a shard; default: none. */
  readonly onWritten?: (bytes: number) => void;
  readonly log?: Log;
}

const CONFIRM = 'checkpoint-confirm';
/** A task that takes longer to answer may be gone and is ignored. */
const CONFIRM_MS = 2000;

export class CheckpointService {
  readonly directory: string;
  readonly pauses: StepPauses;
  /** Coordinates the end of training with the other tasks. */
  readonly lastSteps: LastSteps;
  /** Stops all saves when the global step falls. */
  readonly stepAlarm: SharedStepAlarm;
  /** Completes the checkpoints of savers that a program uses without a training session. */
  readonly gathering = new Gathering();
  /** Saves before a ps leaves. */
  readonly leavingSave: LeavingSave;
  /** Copies the values of variables to the disk of this task, for exports. */
  readonly gatherer: VariableGatherer;
  /** Runs saves one after another. */
  readonly inTurn = serialQueue();
  readonly #server: ClusterServer;
  readonly #stores: TaskStores;
  readonly #access: ServerVariables;
  readonly #shards: ShardService;
  readonly #stopSweeping: () => void;

  constructor(server: ClusterServer, options: CheckpointServiceOptions) {
    const { replicas = 1, log = () => {}, onWritten } = options;
    const directory = resolve(options.directory);
    const { task } = server;
    const openStore = (url: string) => this.store(url);
    this.#server = server;
    this.directory = directory;
    this.#stores = new TaskStores(task, { directory, replicas, log });
    this.pauses = new StepPauses(task, () => this.lastSteps.isOver, log);
    this.lastSteps = new LastSteps(server, () => this.gatherer.exporters);
    this.stepAlarm = new SharedStepAlarm(task, log);
    this.leavingSave = new LeavingSave(task, log);
    this.#access = new ServerVariables(() => server.engine.openLocal());
    this.#shards = new ShardService({ access: this.#access, openStore, onWritten, log: options.log });
    this.gatherer = new VariableGatherer({ server, directory, openStore, saving: () => this.saving, log });
    this.#shards.serve(task);
    task.onOrder(CONFIRM, () => null);
    const sweep = async (isFirst: boolean) => {
      const count = await (isFirst ? sweepOwn(this.store()) : this.store().sweep());
      return count + (await this.gatherer.sweep());
    };
    this.#stopSweeping = sweepHourly(sweep, options.log);
  }

  /** Opens a store by its URL: `peers:`, `file:DIRECTORY`, or `place:` for the disk of one task. */
  store(url?: string): Store {
    return this.#stores.get(url);
  }

  readonly owner = (name: string): ShardOwner =>
    name === this.#server.task.task ? this.#shards : new RemoteOwner(this.#server.task, name as TaskId);

  /** The task of a device; default: this task. */
  ownerOf(device: string): TaskId {
    const match = /\/job:([^/]+)(?:\/replica:\d+)?\/task:(\d+)/.exec(device);
    const id = match ? `/job:${match[1]}/task:${match[2]}` : '';
    return isTaskId(id) ? id : this.#server.task.task;
  }

  get chief(): { task: string; incarnation: number } {
    return this.#server.task.identity;
  }

  /** The context of every save, of a checkpoint or an export. */
  get saving(): Omit<SaveContext, 'store' | 'namespace' | 'now' | 'log'> {
    this.stepAlarm.throwIfRaised();
    const { owner, watch, inTurn, chief } = this;
    return { owner, pauseControl: this.pauses.control, watch, inTurn, chief };
  }

  /**
   * Rejects with SHOAL_FORBIDDEN if a task that answers knows a successor of this chief. The answer may be outdated
   * when it arrives: this shortens the time in which a replaced chief can do damage, but does not remove it.
   */
  readonly confirmChief = async (): Promise<void> => {
    this.stepAlarm.throwIfRaised();
    const { task } = this.#server;
    const others = task.members().filter((member) => member.task !== task.task && isPresent(member.status));
    const asked = await Promise.allSettled(
      others.map((member) => task.order(member.task, CONFIRM, null, { timeoutMs: CONFIRM_MS })),
    );
    for (const answer of asked) {
      if (answer.status === 'rejected' && isShoalError(answer.reason, 'SHOAL_FORBIDDEN')) throw answer.reason;
    }
  };

  readonly watch: Watch = (listener) =>
    this.#server.task.events.on('*', (event) => {
      const isSilent = event.type === 'lost' && this.pauses.isSilent(event.member.task);
      if ((event.type === 'lost' && !isSilent) || event.type === 'left')
        listener({ type: 'lost', task: event.member.task });
      else if (event.type === 'back' && event.replaced) listener({ type: 'lost', task: event.member.task });
      if ((event.type === 'joined' || event.type === 'back') && trains(event.member.task)) {
        listener({ type: 'joined', task: event.member.task });
      }
    });

  async close(): Promise<void> {
    this.#stopSweeping();
    this.pauses.close();
    this.stepAlarm[Symbol.dispose]();
    await this.#stores.close();
    await this.#access.close();
  }
}
