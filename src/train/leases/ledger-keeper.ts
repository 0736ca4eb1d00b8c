/**
 * Leased input: on the chief the ledger and the desk in front of it, on every worker the way there. The
 * ledger goes where the model goes: to a checkpoint and back, or to the beginning.
 */
import type { Server } from '../../cluster/runtime/server.js';
import { type TaskId, trains } from '../../cluster/spec/task-id.js';
import { ShoalError } from '../../errors/errors.js';
import { LeaseClient } from '../../input/leases/lease-client.js';
import { RemoteDesk, serveLeases } from '../../input/leases/lease-requests.js';
import { LeaseServer } from '../../input/leases/lease-server.js';
import { type LedgerPlan, parseLedgerCut } from '../../input/leases/ledger.js';
import { LedgerHost } from '../../input/leases/ledger-host.js';
import { adoptCut } from '../../input/leases/sharded-files.js';
import type { ShardInput } from '../../input/leases/shards.js';
import { MarkKeeper } from '../../input/leases/step-marks.js';
import type { ShardParts } from './shard-parts.js';

/** What brings model and ledger to one moment. */
export interface Rewinding {
  /** Does `work` while no checkpoint is being saved. */
  readonly apart: (work: () => Promise<void>) => Promise<void>;
  /** Gives all variables the values of the newest checkpoint, and the ledger in it; false where there is none. */
  readonly restore?: (() => Promise<boolean>) | undefined;
  /** Gives all variables their first values. */
  readonly initialize: () => Promise<void>;
}

export interface LedgerKeeperOptions {
  readonly shards: ShardParts;
  readonly server: Server | undefined;
  readonly lanes: number;
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
}

/** The chief's part. */
export class LedgerKeeper implements AsyncDisposable {
  readonly desk: LeaseServer;
  readonly #options: LedgerKeeperOptions;
  readonly #host: LedgerHost;
  readonly #marks: MarkKeeper | undefined;
  readonly #ends: (() => void)[] = [];
  #rewinding: Rewinding | undefined;
  /** Whether model and ledger are known to be of one moment. */
  #isPlaced = false;
  #turn: Promise<unknown> = Promise.resolve();

  private constructor(options: LedgerKeeperOptions, host: LedgerHost) {
    const { server, shards, lanes, signal, log } = options;
    this.#options = options;
    this.#host = host;
    const devices = shards.marks?.devices ?? [];
    this.#marks =
      server && devices.length > 0
        ? new MarkKeeper((graph) => server.session(graph), devices, lanes, { log })
        : undefined;
    this.desk = new LeaseServer({
      host,
      marks: this.#marks,
      workers: () => (server ? trainingTasks(server) : []),
      rewind: this.#marks && ((why) => this.#rewind(why)),
      life: server ? `${server.task.identity.incarnation}.${server.task.identity.nonce}` : 'here',
      signal,
      log,
    });
    if (server) this.#serve(server);
  }

  static async open(options: LedgerKeeperOptions): Promise<LedgerKeeper> {
    const { shards, server, signal, log } = options;
    const workers = server ? trainingTasks(server).length : 1;
    const { plan, notes } = await shards.files.plan({ workers, signal });
    log(`input: ${[described(plan), ...notes, ...(shards.hint ? [shards.hint] : [])].join('; ')}`);
    if (plan.shards.length < workers)
      log(
        `input: ${many(plan.shards.length, 'shard')} for ${workers} workers: not all have records at a time`,
      );
    // Leases that an earlier chief gave out have lower ids, whatever it gave out.
    const generation = Math.floor(Date.now() / 1000);
    return new LedgerKeeper(options, new LedgerHost(plan, { generation }));
  }

  #serve(server: Server): void {
    this.#ends.push(
      serveLeases(server.task, this.desk),
      server.task.events.on('*', (event) => {
        if (!('member' in event)) return;
        const { task, incarnation } = event.member;
        if (!trains(task)) return;
        if (event.type === 'lost' || event.type === 'left') this.desk.lost(task, incarnation);
        else if (event.type === 'back' && event.replaced) this.desk.lost(task, incarnation - 1);
      }),
    );
  }

  /** Tells how model and ledger are brought to one moment when that is needed. */
  set rewinding(rewinding: Rewinding) {
    this.#rewinding = rewinding;
  }

  /** Gives variables other values than steps give them: no step is applied, and no lease given, until `ready`. */
  async place<T>(work: () => Promise<T>): Promise<T> {
    return this.#alone(async () => {
      await this.#leave();
      return work();
    });
  }

  async #leave(): Promise<void> {
    this.#isPlaced = false;
    await this.desk.pause();
  }

  /** The model is that of a checkpoint, which holds this. */
  restored(input: unknown): void {
    const { log } = this.#options;
    const found = parseLedgerCut(input);
    if (found) {
      const { cut, notice } = adoptCut(found, this.#host.state.plan);
      if (notice) log(notice);
      this.#host.restore(cut);
      log(`input: ${cut.consumed} records are consumed, the rest follows`);
    } else {
      log('the checkpoint does not say what input it has seen: the input begins at its beginning');
      this.#host.reset();
    }
    this.#isPlaced = true;
  }

  /** The model is at its beginning. */
  reset(): void {
    this.#host.reset();
    this.#isPlaced = true;
  }

  /** Every variable has a value. Opens the desk; if the ledger is of another moment than the model, both go back first. */
  async ready(): Promise<void> {
    await this.#alone(async () => {
      if (!this.#isPlaced) await this.#goBack('an earlier chief had the ledger');
    });
    this.desk.resume();
  }

  /** A lost worker's step was applied in part: all go back. */
  async #rewind(why: string): Promise<void> {
    const { generation } = this.#host.state;
    await this.#alone(async () => {
      // Somebody else may have brought all back meanwhile.
      if (this.#host.state.generation === generation) await this.#goBack(why);
    });
    this.desk.resume();
  }

  async #goBack(why: string): Promise<void> {
    const rewinding = this.#rewinding;
    if (!rewinding) throw new ShoalError('SHOAL_INTERNAL', 'The ledger can not go back yet');
    const { log } = this.#options;
    await rewinding.apart(async () => {
      await this.#leave();
      log(`${why}: all go back to the newest checkpoint`);
      if (await rewinding.restore?.()) return;
      log('there is no checkpoint: training begins again from first values');
      await rewinding.initialize();
      this.reset();
    });
  }

  #alone<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => {
      // Whoever asked for it hears of the failure.
    });
    return result;
  }

  /** Tells whoever waits for leases that training is over. */
  finish(): void {
    this.#host.finish();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const end of this.#ends) end();
    await this.#marks?.[Symbol.asyncDispose]();
  }
}

function described({ shards, epochs }: LedgerPlan): string {
  const records = shards.reduce((sum, shard) => sum + shard.records, 0);
  const files = new Set(shards.map(({ file }) => file)).size;
  const times = epochs === null ? 'again and again' : epochs === 1 ? 'once' : `${epochs} times`;
  const parts = `${many(records, 'record')} of ${many(files, 'file')} as ${many(shards.length, 'shard')}`;
  return `${parts}, ${times}, leased by the chief`;
}

const many = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;

/** Connects a worker's input to the desk: its own, where it is the chief. */
export function connectInput(
  input: ShardInput,
  {
    server,
    keeper,
    signal,
    log,
  }: {
    readonly server: Server | undefined;
    readonly keeper: LedgerKeeper | undefined;
    readonly signal: AbortSignal;
    readonly log: (line: string) => void;
  },
): void {
  if (keeper) {
    input.connect(new LeaseClient(keeper.desk, signal), server?.task.task ?? 'worker');
    return;
  }
  const chief = server?.spec.chief;
  if (!server || chief === undefined) throw new ShoalError('SHOAL_CONFIG', 'Leased input needs a chief');
  input.connect(new LeaseClient(new RemoteDesk(server.task, chief, { log }), signal), server.task.task);
}

const trainingTasks = (server: Server): TaskId[] =>
  [
    ...new Set([...server.spec.tasks.map(({ id }) => id), ...server.task.members().map(({ task }) => task)]),
  ].filter(trains);
