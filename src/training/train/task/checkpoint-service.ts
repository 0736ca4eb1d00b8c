/**
 * The checkpoint service of a task. Every task stores blobs for the others. A task that holds variables takes snapshots
 * of them, writes and restores them on the chief's orders. A worker pauses between steps when the chief requests it.
 * The chief's saver reaches all tasks through its own service.
 */
import { resolve } from 'node:path';
import * as v from 'valibot';
import { serialQueue } from '../../../base/async/serial-queue.js';
import { isShoalError, ShoalError } from '../../../base/errors/errors.js';
import type {
  PauseControl,
  PauseOptions,
  SaveContext,
  Watch,
} from '../../../distributed/checkpoint/protocol/save.js';
import { RemoteOwner, type ShardOwner } from '../../../distributed/checkpoint/shard/shard-owner.js';
import { ShardService } from '../../../distributed/checkpoint/shard/shard-service.js';
import { ServerVariables } from '../../../distributed/checkpoint/shard/variable-access.js';
import { validated } from '../../../distributed/cluster/agent/wire.js';
import { compareIdentity, type Identity } from '../../../distributed/cluster/membership/map.js';
import { isPresent } from '../../../distributed/cluster/membership/types.js';
import type { ClusterServer } from '../../../distributed/cluster/runtime/cluster-server.js';
import { isTaskId, type TaskId, trains } from '../../../distributed/cluster/spec/task-id.js';
import { peersOf } from '../../../distributed/cluster/task/peers.js';
import { DirectoryStore, openFileStore } from '../../../distributed/store/disk/directory-store.js';
import { sweepHourly, sweepOwn } from '../../../distributed/store/disk/sweeping.js';
import { PeersStore } from '../../../distributed/store/peers/peers-store.js';
import { PlaceStore, placeOfUrl } from '../../../distributed/store/peers/place-store.js';
import type { Store } from '../../../distributed/store/store.js';
import { SilentWorkers } from '../recovery/silent-workers.js';
import { LastSteps } from '../recovery/steps/last-steps.js';
import { StepGate } from '../recovery/steps/step-gate.js';
import { VariableGatherer } from './gather-variables.js';
import { Gathering } from './gathering.js';
import { LeavingSave } from './leaving-save.js';
import { SharedStepAlarm } from './shared-step-alarm.js';

export interface CheckpointServiceOptions {
  /** The directory whose blobs the agent serves. */
  readonly directory: string;
  /** The number of copies of every shard on other hosts; default: 1. */
  readonly replicas?: number;
  /** Called when this task has written a shard; default: none. */
  readonly onWritten?: (bytes: number) => void;
  readonly log?: (line: string) => void;
}

const CONFIRM = 'checkpoint-confirm';
/** A task that takes longer to answer may be gone and is ignored. */
const CONFIRM_MS = 2000;
const PAUSE = 'train-pause';
const RESUME = 'train-resume';
const Token = v.pipe(v.string(), v.maxLength(100));
const PauseSchema = v.object({
  leaseMs: v.number(),
  atStep: v.optional(v.number()),
  token: Token,
  holds: v.optional(v.boolean()),
});
const ResumeSchema = v.object({ token: Token });
/** The number of ended pauses to remember, for orders that arrive late. */
const REMEMBERED = 100;

export class CheckpointService {
  readonly directory: string;
  /** Pauses the training steps of this task for a snapshot. */
  readonly gate = new StepGate();
  /** Coordinates the end of training with the other tasks. */
  readonly lastSteps: LastSteps;
  /** Stops all saves when the global step falls. */
  readonly stepAlarm: SharedStepAlarm;
  /** Completes the checkpoints of savers that a program uses without a training session. */
  readonly gathering = new Gathering();
  /** Saves before a ps leaves. */
  readonly leavingSave: LeavingSave;
  /** The step at which synchronous training can pause. Undefined for asynchronous training. */
  #nextPause: (() => Promise<number>) | undefined;
  #stopSteps: (() => Promise<void>) | undefined;
  #hasStoppedUpdates = false;
  readonly #stopSweeping: () => void;
  readonly #unwatchChief: () => void;
  readonly #server: ClusterServer;
  readonly #service: ShardService;
  readonly #stores = new Map<string, Store>();
  readonly #replicas: number;
  readonly #access: ServerVariables;
  readonly #silent: SilentWorkers;
  readonly #log: (line: string) => void;
  /** The process that requested each pause of this task, by token, and the tokens of ended pauses. */
  readonly #pausedBy = new Map<string, Identity>();
  readonly #ended = new Set<string>();

  constructor(server: ClusterServer, options: CheckpointServiceOptions) {
    this.#server = server;
    this.directory = resolve(options.directory);
    this.#replicas = options.replicas ?? 1;
    this.#access = new ServerVariables(() => server.engine.openLocal());
    this.#silent = new SilentWorkers(server.task);
    this.lastSteps = new LastSteps(server, () => this.gatherer.exporters);
    this.#log = options.log ?? (() => {});
    this.stepAlarm = new SharedStepAlarm(server.task, this.#log);
    this.leavingSave = new LeavingSave(server.task, this.#log);
    this.#service = new ShardService({
      access: this.#access,
      openStore: (url) => this.store(url),
      onWritten: options.onWritten,
      ...(options.log ? { log: options.log } : {}),
    });
    this.gatherer = new VariableGatherer({
      server,
      directory: this.directory,
      openStore: (url) => this.store(url),
      saving: () => this.saving,
      log: this.#log,
    });
    this.#service.serve(server.task);
    server.task.onOrder(CONFIRM, () => null);
    server.task.onOrder(PAUSE, async (payload, { from, work }) => {
      const pause = validated(PauseSchema, payload, 'order');
      work.signal.addEventListener('abort', () => this.gate.resume(pause.token), { once: true });
      await this.#pause(pause, from);
      return null;
    });
    // The process of a chief that has left takes no snapshot any more. That of one that was replaced is refused by tasks
    // that know of its successor. A process may raise its own incarnation.
    this.#unwatchChief = server.task.events.on('*', (event) => {
      const isOver = event.type === 'left' || (event.type === 'back' && event.replaced);
      if (!isOver || event.member.task !== server.task.chief) return;
      for (const [token, by] of this.#pausedBy) {
        const isOfThisOne = event.type === 'back' && by.nonce === event.member.nonce;
        if (!isOfThisOne && compareIdentity(by, event.member) <= 0) this.gate.resume(token);
      }
    });
    server.task.onOrder(RESUME, (payload) => this.#resume(validated(ResumeSchema, payload, 'order').token));
    const sweep = async (isFirst: boolean) => {
      const count = await (isFirst ? sweepOwn(this.store()) : this.store().sweep());
      return count + (await this.gatherer.sweep());
    };
    this.#stopSweeping = sweepHourly(sweep, options.log);
  }

  /**
   * Steps of synchronous training wait for each other, so all workers pause at the same step, which the chief reads
   * before each pause.
   */
  pauseAt(step: () => Promise<number>): void {
    this.#nextPause = step;
  }

  /** Sets how `stopUpdates` stops synchronous steps. */
  stopStepsBy(stop: () => Promise<void>): void {
    this.#stopSteps = stop;
    // Training may start again, after a loss at its end.
    this.#hasStoppedUpdates = false;
  }

  async #pause(pause: v.InferOutput<typeof PauseSchema>, chief: Identity): Promise<void> {
    // Orders may be reordered: a pause that arrives after its resume must not block steps.
    if (this.#ended.has(pause.token))
      throw new ShoalError('SHOAL_ABORTED', 'The pause was ended before it began');
    if (this.lastSteps.isOver) return;
    for (const token of this.#pausedBy.keys()) if (!this.gate.has(token)) this.#pausedBy.delete(token);
    this.#pausedBy.set(pause.token, chief);
    await this.gate.pause(pause);
  }

  /** Ends this pause only: a late order must not let steps run during the next snapshot. */
  #resume(token: string): void {
    this.#ended.add(token);
    for (const old of this.#ended) {
      if (this.#ended.size <= REMEMBERED) break;
      this.#ended.delete(old);
    }
    this.gate.resume(token);
  }

  /** Opens a store by its URL: `peers:`, `file:DIRECTORY`, or `place:` for the disk of one task. */
  store(url = 'peers:'): Store {
    const known = this.#stores.get(url);
    if (known) return known;
    const place = placeOfUrl(url);
    // The URL differs for each export, and the store holds nothing open.
    if (place) {
      const directory = new DirectoryStore(this.directory);
      return new PlaceStore({ directory, peers: peersOf(this.#server.task), ...place });
    }
    const store = this.#open(url);
    this.#stores.set(url, store);
    return store;
  }

  #open(url: string): Store {
    const directory = new DirectoryStore(this.directory);
    if (url === 'peers:')
      return new PeersStore({
        directory,
        peers: peersOf(this.#server.task),
        replicas: this.#replicas,
        log: this.#log,
      });
    return openFileStore(url);
  }

  readonly owner = (name: string): ShardOwner =>
    name === this.#server.task.task ? this.#service : new RemoteOwner(this.#server.task, name as TaskId);

  /** The task of a device; default: this task. */
  ownerOf(device: string): TaskId {
    const match = /\/job:([^/]+)(?:\/replica:\d+)?\/task:(\d+)/.exec(device);
    const id = match ? `/job:${match[1]}/task:${match[2]}` : '';
    return isTaskId(id) ? id : this.#server.task.task;
  }

  get chief(): { task: string; incarnation: number } {
    return this.#server.task.identity;
  }

  /** Copies the values of variables to the disk of this task, for exports. */
  readonly gatherer: VariableGatherer;

  /** The context of every save, of a checkpoint or an export. */
  get saving(): Omit<SaveContext, 'store' | 'namespace' | 'now' | 'log'> {
    this.stepAlarm.throwIfRaised();
    const { owner, pauseControl, watch, inTurn, chief } = this;
    return { owner, pauseControl, watch, inTurn, chief };
  }

  /** Runs saves one after another. */
  readonly inTurn = serialQueue();

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

  readonly pauseControl: PauseControl = {
    pauseTimeoutMs: () => this.gate.times.pauseMs,
    workers: () =>
      this.#hasStoppedUpdates
        ? []
        : this.#server.task
            .members()
            .filter(({ task, status }) => trains(task) && (isPresent(status) || this.#silent.has(task)))
            .map(({ task }) => task),
    check: async ({ signal }) => {
      if (!this.#hasStoppedUpdates) await this.#silent.allUnreachable(signal, this.#log);
    },
    atStep: async () => this.#nextPause?.(),
    pause: async (worker, { signal, ...options }) => {
      const { signal: over, abort } = linked(signal);
      try {
        const silent = this.#silent
          .becomesSilent(worker, over)
          .then(() => this.#silent.unreachable(worker, over, this.#log));
        const asked = this.#ask(worker, { ...options, signal: over }).catch((error: unknown) => {
          if (!this.#silent.has(worker)) throw error;
          return silent;
        });
        await Promise.race([asked, silent]);
      } finally {
        abort();
      }
    },
    resume: async (worker, token) => {
      if (worker === this.#server.task.task) return this.#resume(token);
      await this.#server.task.order(worker as TaskId, RESUME, { token }, { timeoutMs: 5000, again: true });
    },
  };

  /** Requests a pause from a worker, and waits until it has paused. */
  async #ask(worker: string, { signal, ...request }: PauseOptions): Promise<void> {
    const { leaseMs } = request;
    if (worker === this.#server.task.task) return this.#pause(request, this.#server.task.identity);
    try {
      await this.#server.task.order(worker as TaskId, PAUSE, request, { timeoutMs: leaseMs, signal });
    } catch (error) {
      // A task that does not know this order is starting or leaving: it does not train.
      if (!isShoalError(error, 'SHOAL_NOT_FOUND')) throw error;
    }
  }

  /**
   * Called before the last checkpoint. In synchronous training only the chief updates variables. Once it has stopped,
   * there is nothing to pause, and no worker could reach a later step to pause at.
   */
  async stopUpdates(): Promise<void> {
    if (this.#nextPause === undefined) return;
    await this.#stopSteps?.();
    this.#hasStoppedUpdates = true;
  }

  readonly watch: Watch = (listener) =>
    this.#server.task.events.on('*', (event) => {
      const isSilent = event.type === 'lost' && this.#silent.has(event.member.task);
      if ((event.type === 'lost' && !isSilent) || event.type === 'left')
        listener({ type: 'lost', task: event.member.task });
      else if (event.type === 'back' && event.replaced) listener({ type: 'lost', task: event.member.task });
      if ((event.type === 'joined' || event.type === 'back') && trains(event.member.task)) {
        listener({ type: 'joined', task: event.member.task });
      }
    });

  async close(): Promise<void> {
    this.#stopSweeping();
    this.#unwatchChief();
    this.#silent.close();
    this.stepAlarm[Symbol.dispose]();
    for (const store of this.#stores.values()) await store.close();
    await this.#access.close();
  }
}

/** A signal that aborts with another one, or when `abort` is called. */
function linked(signal: AbortSignal): { readonly signal: AbortSignal; readonly abort: () => void } {
  const own = new AbortController();
  return { signal: AbortSignal.any([signal, own.signal]), abort: () => own.abort() };
}
