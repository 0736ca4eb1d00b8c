/** Makes the faults of a soak on a failover cluster, and undoes them. */
import { sleep } from '../../src/async/deadline.js';
import { isShoalError } from '../../src/errors/errors.js';
import { EXIT } from '../../src/errors/exit-codes.js';
import type { FailoverCluster } from '../cluster/failover-cluster.js';
import type { Hold, TaskName } from '../cluster/failover-tasks.js';
import type { LabHost } from '../hosts/hosts.js';
import type { Burst, Fault, Place } from './faults.js';

/** How long a task may take to reach a fault point; other faults of the burst may keep it from that. */
const SAVE_POINT_MS = 8000;
const RESTORE_POINT_MS = 30_000;
const START_MS = 60_000;
/** How long the clock of a task stays wrong after its start. */
const CLOCK_MS = 2000;
/** How long a process that was replaced may take to exit. */
const EXIT_MS = 30_000;

type Of<K extends Fault['kind']> = Extract<Fault, { readonly kind: K }>;

export class Injector {
  readonly #cluster: FailoverCluster;
  readonly #signal: AbortSignal;

  constructor(cluster: FailoverCluster, signal: AbortSignal) {
    this.#cluster = cluster;
    this.#signal = signal;
  }

  /** Makes the faults of a burst. At the end all are undone and every task is launched; returns notes. */
  async make({ faults }: Burst): Promise<readonly string[]> {
    const made = await Promise.allSettled(
      faults.map(async ({ delayMs, fault }) => {
        await this.#sleep(delayMs);
        return this.#inject(fault);
      }),
    );
    // All faults are undone before this throws.
    return made.flatMap((one) => {
      if (one.status === 'rejected') throw one.reason;
      return one.value ?? [];
    });
  }

  #inject(fault: Fault): Promise<string | undefined> {
    switch (fault.kind) {
      case 'kill':
        return this.#kill(fault);
      case 'kill-in-restore':
        return this.#killInRestore(fault);
      case 'replace':
        return this.#replace(fault);
      default:
        return this.#disturb(fault);
    }
  }

  async #kill({ victims, place, downMs, hold, clockMs }: Of<'kill'>): Promise<string | undefined> {
    const cluster = this.#cluster;
    let note: string | undefined;
    if (hold) note = await this.#reached(hold, () => cluster.hold(hold, SAVE_POINT_MS));
    await cluster.kill(victims);
    if (hold && !victims.includes(hold.task)) await cluster.release(hold.task);
    await this.#sleep(downMs);
    for (const name of victims) await this.#launch(name, place, clockMs);
    if (clockMs !== undefined) for (const name of victims) await this.#correctClock(name);
    return note;
  }

  async #killInRestore({ hold, victims, place }: Of<'kill-in-restore'>): Promise<string | undefined> {
    const cluster = this.#cluster;
    await cluster.kill([hold.task]);
    await cluster.prepareHold(hold);
    await cluster.start(hold.task);
    const note = await this.#reached(hold, () => cluster.held(hold.task, RESTORE_POINT_MS));
    await cluster.kill(victims);
    await cluster.release(hold.task);
    for (const name of victims) await this.#launch(name, place);
    return note;
  }

  /** A fault point that is not reached in time is only noted. */
  async #reached({ task, point }: Hold, wait: () => Promise<void>): Promise<string | undefined> {
    try {
      await wait();
      return undefined;
    } catch (error) {
      if (!isShoalError(error, 'SHOAL_TIMEOUT')) throw error;
      return `${task} did not reach ${point}`;
    }
  }

  async #launch(name: TaskName, place: Place, clockMs = 0): Promise<void> {
    if (place === 'wiped') await this.#cluster.hostOf(name).wipeDisk();
    if (place === 'moved') await this.#cluster.move(name);
    if (clockMs !== 0) await this.#cluster.setClock(name, clockMs);
    await this.#cluster.start(name);
  }

  /** Corrects the clock of a task when it has joined the cluster. */
  async #correctClock(name: TaskName): Promise<void> {
    await this.#cluster
      .task(name)
      .process.waitFor(/^agent at/m, { timeoutMs: START_MS, signal: this.#signal });
    await this.#sleep(CLOCK_MS);
    await this.#cluster.setClock(name, 0);
  }

  async #replace({ task, ms }: Of<'replace'>): Promise<undefined> {
    const cluster = this.#cluster;
    const { host, process } = cluster.task(task);
    await host.freeze(process);
    await cluster.startSuccessor(task);
    await this.#sleep(ms);
    await host.thaw(process);
    const exit = await process.ended({ timeoutMs: EXIT_MS, signal: this.#signal });
    await host.wipeDisk();
    if (exit.code !== EXIT.superseded)
      throw new Error(`${task} was replaced and ended with ${exit.signal ?? exit.code}`);
    return undefined;
  }

  async #disturb(fault: Exclude<Fault, Of<'kill' | 'kill-in-restore' | 'replace'>>): Promise<undefined> {
    const { host, process } = this.#cluster.task(fault.task);
    const [make, undo] = this.#disturbance(fault, host, process);
    await make();
    try {
      await this.#sleep(fault.ms);
    } finally {
      await undo();
    }
    return undefined;
  }

  #disturbance(
    fault: Exclude<Fault, Of<'kill' | 'kill-in-restore' | 'replace'>>,
    host: LabHost,
    process: Parameters<LabHost['freeze']>[0],
  ): readonly [make: () => Promise<unknown>, undo: () => Promise<unknown>] {
    switch (fault.kind) {
      case 'freeze':
        return [() => host.freeze(process), () => host.thaw(process)];
      case 'partition':
        return [() => host.disconnect(), () => host.reconnect()];
      case 'one-way': {
        const others = this.#cluster.lab.hosts.filter((other) => other !== host);
        const pairs = others.map((other) => (fault.direction === 'out' ? [host, other] : [other, host]));
        const each = (act: (from: LabHost, to: LabHost) => Promise<void>) => () =>
          Promise.all(pairs.map(([from, to]) => act(from!, to!)));
        return [each((from, to) => from.block(to)), each((from, to) => from.unblock(to))];
      }
      case 'slow':
        return [() => host.slow(fault.traits), () => host.unslow()];
      case 'full-disk':
        return [() => host.fillDisk(), () => host.freeDisk()];
      case 'clock':
        return [
          () => this.#cluster.setClock(fault.task, fault.offsetMs),
          () => this.#cluster.setClock(fault.task, 0),
        ];
    }
  }

  async #sleep(ms: number): Promise<void> {
    await sleep(ms, this.#signal);
  }
}
