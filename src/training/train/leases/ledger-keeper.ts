/**
 * Leased input: the ledger and the lease server on the chief, and the connection of every worker to them. The ledger is
 * saved, restored and reset together with the model.
 */

import { serialQueue } from '../../../base/async/serial-queue.js';
import { ShoalError } from '../../../base/errors/errors.js';
import { count } from '../../../base/text/format.js';
import type { Log } from '../../../base/text/log.js';
import type { ClusterServer } from '../../../distributed/cluster/runtime/cluster-server.js';
import { type TaskId, trains } from '../../../distributed/cluster/spec/task-id.js';
import { LeaseClient } from '../../input/leases/lease-client.js';
import { RemoteLeaseServer, serveLeases } from '../../input/leases/lease-requests.js';
import { LeaseServer } from '../../input/leases/lease-server.js';
import { type LedgerPlan, type LedgerState, parseLedgerSnapshot } from '../../input/leases/ledger.js';
import { LedgerHost } from '../../input/leases/ledger-host.js';
import { adoptSnapshot } from '../../input/leases/sharded-files.js';
import type { LeaseObserver, ShardInput } from '../../input/leases/shards.js';
import { MarkKeeper } from '../../input/leases/step-marks.js';
import type { ShardParts } from './shard-parts.js';

/** How long a ps may take to report which tasks it knows. */
const ASK_MS = 2000;

/** How model and ledger are brought back to the same state. */
export interface Rewinding {
  /** Runs `work` while no checkpoint is being saved. */
  readonly withoutSaves: (work: () => Promise<void>) => Promise<void>;
  /** Restores all variables and the ledger from the newest checkpoint; false if there is none. */
  readonly restore?: () => Promise<boolean>;
  /** Initializes all variables. */
  readonly initialize: () => Promise<void>;
}

export interface LedgerKeeperOptions {
  readonly shards: ShardParts;
  readonly server: ClusterServer | undefined;
  readonly slots: number;
  /** Training was stopped: ends the scan of the files. */
  readonly stop: AbortSignal;
  /** Training is over: ends everything. */
  readonly signal: AbortSignal;
  readonly log: Log;
}

/** The chief's part. */
export class LedgerKeeper implements AsyncDisposable {
  readonly leases: LeaseServer;
  readonly #options: LedgerKeeperOptions;
  readonly #host: LedgerHost;
  readonly #marks: MarkKeeper | undefined;
  readonly #ends: (() => void)[] = [];
  #rewinding: Rewinding | undefined;
  /** Whether model and ledger are known to be in the same state. */
  #isInSync = false;
  readonly #exclusive = serialQueue();

  private constructor(options: LedgerKeeperOptions, host: LedgerHost) {
    const { server, shards, slots, signal, log } = options;
    this.#options = options;
    this.#host = host;
    const devices = shards.marks?.devices ?? [];
    this.#marks =
      server && devices.length > 0
        ? new MarkKeeper((graph) => server.session(graph), devices, slots, { log })
        : undefined;
    this.leases = new LeaseServer({
      host,
      marks: this.#marks,
      workers: () => (server ? allTrainingTasks(server) : []),
      rewind: this.#marks && ((why) => this.#rewind(why)),
      sessionPrefix: server ? `${server.task.identity.incarnation}.${server.task.identity.nonce}` : 'here',
      signal,
      log,
    });
    if (server) this.#serve(server);
  }

  static async open(options: LedgerKeeperOptions): Promise<LedgerKeeper> {
    const { shards, server, stop, log } = options;
    const workers = server ? trainingTasks(server).length : 1;
    const { plan, notes } = await shards.files.plan({ workers, signal: stop });
    log(`input: ${[described(plan), ...notes, ...(shards.hint ? [shards.hint] : [])].join('; ')}`);
    if (plan.shards.length < workers)
      log(
        `input: ${count(plan.shards.length, 'shard')} for ${workers} workers: not all of them have records at the same time`,
      );
    // Leases of an earlier chief have another term.
    const term = server?.task.identity.incarnation;
    return new LedgerKeeper(options, new LedgerHost(plan, term === undefined ? {} : { term }));
  }

  #serve(server: ClusterServer): void {
    this.#ends.push(
      serveLeases(server.task, this.leases),
      server.task.events.on('*', (event) => {
        if (!('member' in event)) return;
        const { task, incarnation } = event.member;
        if (!trains(task)) return;
        if (event.type === 'lost' || event.type === 'left') this.leases.lost(task, incarnation);
        else if (event.type === 'back' && event.replaced) this.leases.lost(task, incarnation - 1);
      }),
    );
  }

  get state(): LedgerState {
    return this.#host.state;
  }

  /** Sets how model and ledger are brought back to the same state. */
  set rewinding(rewinding: Rewinding) {
    this.#rewinding = rewinding;
  }

  /** Runs `work`, which restores or initializes variables. No lease is granted until `ready`. */
  async replaceValues<T>(work: () => Promise<T>): Promise<T> {
    return this.#exclusive(async () => {
      await this.#suspend();
      return work();
    });
  }

  async #suspend(): Promise<void> {
    this.#isInSync = false;
    await this.leases.pause();
  }

  /** The model was restored from a checkpoint with this input state. */
  restored(input: unknown): void {
    const { log } = this.#options;
    const found = parseLedgerSnapshot(input);
    if (found) {
      const { snapshot, notice } = adoptSnapshot(found, this.#host.state.plan);
      if (notice) log(notice);
      this.#host.restore(snapshot);
      log(`input: continuing after ${snapshot.consumed} consumed records`);
    } else {
      log('the checkpoint contains no input state: the input starts from its beginning');
      this.#host.reset();
    }
    this.#isInSync = true;
  }

  /** The model was initialized. */
  reset(): void {
    this.#host.reset();
    this.#isInSync = true;
  }

  /** Every variable has a value: grants leases. If ledger and model are not in sync, both are restored first. */
  async ready(): Promise<void> {
    await this.#exclusive(async () => {
      if (!this.#isInSync) await this.#restoreBoth('the ledger of the previous chief is lost');
    });
    this.leases.resume();
  }

  /** The step of a lost worker was partially applied: restores model and ledger. */
  async #rewind(why: string): Promise<void> {
    const { generation } = this.#host.state;
    await this.#exclusive(async () => {
      // Another recovery may have restored both meanwhile.
      if (this.#host.state.generation === generation) await this.#restoreBoth(why);
    });
    this.leases.resume();
  }

  async #restoreBoth(why: string): Promise<void> {
    const rewinding = this.#rewinding;
    if (!rewinding)
      throw new ShoalError('SHOAL_INTERNAL', 'The ledger cannot be restored before `rewinding` is set');
    const { log } = this.#options;
    await rewinding.withoutSaves(async () => {
      await this.#suspend();
      log(`${why}: restoring the newest checkpoint`);
      if (await rewinding.restore?.()) return;
      log('there is no checkpoint: training restarts from initial values');
      await rewinding.initialize();
      this.reset();
    });
  }

  /** Training is over: ends all waits for leases. */
  finish(): void {
    this.#host.finish();
  }

  /** Determines the outcome of the chief's own last steps; the ledger is not saved before. */
  settleOwnSteps(): void {
    this.leases.lost(nameOf(this.#options.server), Number.POSITIVE_INFINITY);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const end of this.#ends) end();
    await this.#marks?.[Symbol.asyncDispose]();
  }
}

function described({ shards, epochs }: LedgerPlan): string {
  const records = shards.reduce((sum, shard) => sum + shard.records, 0);
  const files = new Set(shards.map(({ file }) => file)).size;
  const times = epochs === null ? 'repeated' : epochs === 1 ? 'once' : `${epochs} times`;
  const parts = `${count(records, 'record')} of ${count(files, 'file')} as ${count(shards.length, 'shard')}`;
  return `${parts}, ${times}, leased by the chief`;
}

/** Connects the input of a worker to the lease server of the chief. */
export function connectInput(
  input: ShardInput,
  {
    server,
    keeper,
    observer,
    onBegun,
    signal,
    log,
  }: {
    readonly server: ClusterServer | undefined;
    readonly keeper: LedgerKeeper | undefined;
    readonly observer?: LeaseObserver | undefined;
    /** Called when the input has begun a lease session: the outcome of all earlier steps is known to the chief. */
    readonly onBegun: () => void;
    readonly signal: AbortSignal;
    readonly log: Log;
  },
): void {
  if (keeper) {
    input.connect(new LeaseClient(keeper.leases, signal, onBegun), nameOf(server), observer);
    return;
  }
  const chief = server?.spec.chief;
  if (!server || chief === undefined)
    throw new ShoalError('SHOAL_CONFIG', 'Leased input needs a chief in the cluster');
  input.connect(
    new LeaseClient(
      new RemoteLeaseServer(server.task, chief, { log, returns: (left) => server.finished.returns(left) }),
      signal,
      onBegun,
    ),
    server.task.task,
    observer,
  );
}

/** The name under which a worker leases records. */
const nameOf = (server: ClusterServer | undefined): string => server?.task.task ?? 'worker';

const trainingTasks = (server: ClusterServer): TaskId[] =>
  [
    ...new Set([...server.spec.tasks.map(({ id }) => id), ...server.task.members().map(({ task }) => task)]),
  ].filter(trains);

/**
 * Also those that only the ps know: steps of a previous chief's leases may still run on a ps, of an elastic worker that
 * this chief has not heard of or that has left. A ps that does not answer is lost, and its variables with it.
 */
async function allTrainingTasks(server: ClusterServer): Promise<readonly TaskId[]> {
  const asked = await Promise.allSettled(
    server.psTasks.map(async (ps) => server.task.client(ps).status({ timeoutMs: ASK_MS, once: true })),
  );
  const known = asked.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value.members : []));
  return [...new Set([...trainingTasks(server), ...known.map(({ task }) => task).filter(trains)])];
}
