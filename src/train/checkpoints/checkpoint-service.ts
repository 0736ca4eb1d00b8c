/**
 * The part of a task in the checkpoints of its cluster. Every task keeps blobs for the others; a task that holds
 * variables snapshots, writes and restores them when the chief orders it; a worker rests at a step boundary when the
 * chief asks. The chief's saver finds all of them through here.
 */
import { resolve } from 'node:path';
import * as v from 'valibot';
import { newAttempt } from '../../checkpoint/names.js';
import type { Parking, SaveContext, Watch } from '../../checkpoint/save.js';
import { RemoteOwner, type ShardOwner } from '../../checkpoint/shard-owner.js';
import { ShardService } from '../../checkpoint/shard-service.js';
import { ServerVariables } from '../../checkpoint/variable-access.js';
import { checked } from '../../cluster/agent/wire.js';
import { isThere } from '../../cluster/membership/types.js';
import type { Server } from '../../cluster/runtime/server.js';
import { isTaskId, type TaskId, trains } from '../../cluster/spec/task-id.js';
import { peersOf } from '../../cluster/task/peers.js';
import { isShoalError, ShoalError } from '../../errors/errors.js';
import { DirectoryStore, openFileStore } from '../../store/disk/directory-store.js';
import { sweepHourly, sweepOwn } from '../../store/disk/sweeping.js';
import { PeersStore } from '../../store/peers/peers-store.js';
import { PlaceStore, placeOfUrl } from '../../store/peers/place-store.js';
import type { Store } from '../../store/store.js';
import { LastSteps } from '../recovery/last-steps.js';
import { SilentWorkers } from '../recovery/silent-workers.js';
import { StepGate } from '../recovery/step-gate.js';
import { VariableGatherer } from './gather-variables.js';

export interface PlaneOptions {
  /** The directory whose blobs the agent serves. */
  readonly directory: string;
  /** Copies of every shard on other hosts. */
  readonly replicas?: number | undefined;
  readonly log?: ((line: string) => void) | undefined;
}

const CONFIRM = 'checkpoint-confirm';
/** A task that takes longer to answer is left out: it may be gone. */
const CONFIRM_MS = 2000;
const PARK = 'train-park';
const RESUME = 'train-resume';
const Token = v.pipe(v.string(), v.maxLength(100));
const ParkSchema = v.object({ leaseMs: v.number(), atStep: v.optional(v.number()), token: Token });
const ResumeSchema = v.object({ token: Token });
/** Parks that were ended, remembered for orders that come late. */
const REMEMBERED = 100;

// One service for each server of this process, found by whoever has the server.
const planes = new WeakMap<Server, CheckpointService>();

export function checkpointServiceOf(server: Server): CheckpointService | undefined {
  return planes.get(server);
}

export class CheckpointService {
  readonly directory: string;
  /** Where this task's training steps rest for a cut. */
  readonly gate = new StepGate();
  /** How training ends, here and elsewhere. */
  readonly lastSteps: LastSteps;
  /**
   * Steps of synchronous training wait for each other: they rest at a step that all will reach, this many beyond the one
   * that the chief has seen. Undefined for asynchronous training.
   */
  pauseAheadSteps: number | undefined;
  /** Ends the making of synchronous steps; given by who makes them, on the chief. */
  stopSteps: (() => Promise<void>) | undefined;
  #isStill = false;
  #stopSweeping = () => {};
  readonly #server: Server;
  readonly #service: ShardService;
  readonly #stores = new Map<string, Store>();
  readonly #replicas: number;
  readonly #access: ServerVariables;
  readonly #silent: SilentWorkers;
  readonly #log: (line: string) => void;
  /** The last park that each worker was asked for, by the chief. */
  readonly #tokens = new Map<string, string>();
  /** The park of this task's gate, and those that were ended. */
  #parkedBy: string | undefined;
  readonly #ended = new Set<string>();

  private constructor(server: Server, options: PlaneOptions) {
    this.#server = server;
    this.directory = resolve(options.directory);
    this.#replicas = options.replicas ?? 1;
    this.#access = new ServerVariables(server.target);
    this.#silent = new SilentWorkers(server.task);
    this.lastSteps = new LastSteps(server, () => this.gatherer.exporters);
    this.#log = options.log ?? (() => {});
    this.#service = new ShardService({
      access: this.#access,
      openStore: (url) => this.store(url),
      ...(options.log ? { log: options.log } : {}),
    });
    this.gatherer = new VariableGatherer({
      server,
      directory: this.directory,
      openStore: (url) => this.store(url),
      saving: () => this.saving,
      log: this.#log,
    });
  }

  /** Makes a task take part. Each server once. */
  static attach(server: Server, options: PlaneOptions): CheckpointService {
    const known = planes.get(server);
    if (known) return known;
    const service = new CheckpointService(server, options);
    service.#service.serve(server.task);
    server.task.onOrder(CONFIRM, () => null);
    server.task.onOrder(PARK, async (payload) => {
      await service.#park(checked(ParkSchema, payload, 'order'));
      return null;
    });
    server.task.onOrder(RESUME, (payload) => service.#resume(checked(ResumeSchema, payload, 'order').token));
    planes.set(server, service);
    const sweep = async (isFirst: boolean) => {
      const count = await (isFirst ? sweepOwn(service.store()) : service.store().sweep());
      return count + (await service.gatherer.sweep());
    };
    service.#stopSweeping = sweepHourly(sweep, options.log);
    return service;
  }

  async #park({ leaseMs, atStep, token }: v.InferOutput<typeof ParkSchema>): Promise<void> {
    // Orders may overtake each other: who was told to go on is not held by a park that comes after.
    if (this.#ended.has(token)) throw new ShoalError('SHOAL_ABORTED', 'This park was ended before it came');
    if (this.lastSteps.isOver) return;
    this.#parkedBy = token;
    await this.gate.park({ leaseMs, ...(atStep === undefined ? {} : { atStep }) });
  }

  /** Ends one park and no other: one that comes late does not let steps into the next cut. */
  #resume(token: string): void {
    this.#ended.add(token);
    for (const old of this.#ended) {
      if (this.#ended.size <= REMEMBERED) break;
      this.#ended.delete(old);
    }
    if (this.#parkedBy === token) this.gate.resume();
  }

  /** A store by its address: `peers:`, `file:` and a directory, or `place:` and one task. */
  store(url = 'peers:'): Store {
    const known = this.#stores.get(url);
    if (known) return known;
    const place = placeOfUrl(url);
    // Each export has an address of its own, and holds nothing open.
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

  /** The task that holds what is on a device; this one where the device names none. */
  ownerOf(device: string): TaskId {
    const match = /\/job:([^/]+)(?:\/replica:\d+)?\/task:(\d+)/.exec(device);
    const id = match ? `/job:${match[1]}/task:${match[2]}` : '';
    return isTaskId(id) ? id : this.#server.task.task;
  }

  get chief(): { task: string; incarnation: number } {
    return this.#server.task.identity;
  }

  /** Brings the values of variables to the disk of this task, for exports. */
  readonly gatherer: VariableGatherer;

  /** What every save needs, be it of a checkpoint or of an export. */
  get saving(): Omit<SaveContext, 'store' | 'namespace' | 'now' | 'log'> {
    const { owner, parking, watch, inTurn, chief } = this;
    return { owner, parking, watch, inTurn, chief };
  }

  #lastInTurn: Promise<unknown> = Promise.resolve();
  /** One save after another. */
  readonly inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const mine = this.#lastInTurn.then(work);
    this.#lastInTurn = mine.catch(() => undefined);
    return mine;
  };

  /**
   * Rejects with SHOAL_FORBIDDEN when a task that answers has heard of a successor of this chief. The answer may be out of
   * date as soon as it is here: it makes the time in which a replaced chief can do harm short, not zero.
   */
  readonly confirmChief = async (): Promise<void> => {
    const { task } = this.#server;
    const others = task.members().filter((member) => member.task !== task.task && isThere(member.status));
    const asked = await Promise.allSettled(
      others.map((member) => task.order(member.task, CONFIRM, null, { timeoutMs: CONFIRM_MS })),
    );
    for (const answer of asked) {
      if (answer.status === 'rejected' && isShoalError(answer.reason, 'SHOAL_FORBIDDEN')) throw answer.reason;
    }
  };

  readonly parking: Parking = {
    pauseMs: () => this.gate.times.pauseMs,
    workers: () =>
      this.#isStill
        ? []
        : this.#server.task
            .members()
            .filter(({ task, status }) => trains(task) && (isThere(status) || this.#silent.has(task)))
            .map(({ task }) => task),
    check: async ({ signal }) => {
      if (!this.#isStill) await this.#silent.allUnheard(signal, this.#log);
    },
    park: async (worker, { leaseMs, signal }) => {
      const { signal: over, abort } = linked(signal);
      try {
        const silent = this.#silent
          .falls(worker, over)
          .then(() => this.#silent.unheard(worker, over, this.#log));
        const asked = this.#ask(worker, leaseMs, over).catch((error: unknown) => {
          if (!this.#silent.has(worker)) throw error;
          return silent;
        });
        await Promise.race([asked, silent]);
      } finally {
        abort();
      }
    },
    resume: async (worker) => {
      const token = this.#tokens.get(worker) ?? '';
      if (worker === this.#server.task.task) return this.#resume(token);
      await this.#server.task.order(worker as TaskId, RESUME, { token }, { timeoutMs: 5000, again: true });
    },
  };

  /** Asks a worker to rest, and waits until it does. */
  async #ask(worker: string, leaseMs: number, signal: AbortSignal): Promise<void> {
    const seen = this.gate.seenStep;
    const atStep = this.pauseAheadSteps === undefined ? undefined : (seen ?? 0) + this.pauseAheadSteps;
    const token = newAttempt();
    this.#tokens.set(worker, token);
    const request = { leaseMs, token, ...(atStep === undefined ? {} : { atStep }) };
    if (worker === this.#server.task.task) return this.#park(request);
    try {
      await this.#server.task.order(worker as TaskId, PARK, request, { timeoutMs: leaseMs, signal });
    } catch (error) {
      // A task that has no such order is on its way in or out: it does not train.
      if (!isShoalError(error, 'SHOAL_NOT_FOUND')) throw error;
    }
  }

  /**
   * Before the last checkpoint. The steps of synchronous training are made by the chief alone: when it makes none any more,
   * nobody changes a variable, and nobody could come to rest at a later step.
   */
  async stopUpdates(): Promise<void> {
    if (this.pauseAheadSteps === undefined) return;
    await this.stopSteps?.();
    this.#isStill = true;
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
    this.#silent.close();
    for (const store of this.#stores.values()) await store.close();
    await this.#access.close();
  }
}

/** A signal that fires with another, or when it is told to. */
function linked(signal: AbortSignal): { readonly signal: AbortSignal; readonly abort: () => void } {
  const own = new AbortController();
  return { signal: AbortSignal.any([signal, own.signal]), abort: () => own.abort() };
}
