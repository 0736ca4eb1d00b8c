/** Makes the faults of a soak on a failover cluster, and undoes them. */
import { sleep } from '../../src/base/async/deadline.js';
import { isShoalError } from '../../src/base/errors/errors.js';
import { EXIT } from '../../src/base/errors/exit-codes.js';
import { secs } from '../cluster/cluster-watch.js';
import type { FailoverCluster } from '../cluster/failover-cluster.js';
import { CHIEF, type Hold, TASKS, type TaskName, WORKERS } from '../cluster/failover-tasks.js';
import { connectionsTo, cutConnection } from '../hosts/connections.js';
import type { LabHost } from '../hosts/hosts.js';
import { until } from '../hosts/proc.js';
import type { ScenarioTask } from '../scenarios/scenario-run.js';
import type { Burst } from './bursts.js';
import type { Fault, Place, Return } from './faults.js';

/** How long a task may take to reach a fault point; other faults of the burst may keep it from that. */
const SAVE_POINT_MS = 8000;
const RESTORE_POINT_MS = 30_000;
const START_POINT_MS = 15_000;
const START_MS = 60_000;
/** How long the clock of a task stays wrong after its start. */
const CLOCK_MS = 2000;
/** How long a process that was replaced may take to exit when its successor has joined. */
const EXIT_MS = 30_000;
/** How long a successor may take to train, while the process before it is stopped. */
const SUCCESSOR_MS = 60_000;
/** How long the other end does not learn of a connection that was cut silently. */
const SILENT_MS = 300;

type Of<K extends Fault['kind']> = Extract<Fault, { readonly kind: K }>;
type LabProcess = Parameters<LabHost['freeze']>[0];
type Disturbance = Of<'freeze' | 'partition' | 'one-way' | 'slow' | 'full-disk' | 'clock'>;

export interface InjectorOptions {
  readonly signal: AbortSignal;
  /** Called when the disks have been wiped and no task runs. */
  readonly onNewJob: () => void;
  /** Called when a process is stopped that will be replaced. */
  readonly onStopped: (process: LabProcess) => void;
}

/** What a process has logged since a time, with the seconds after it. */
const linesSince = ({ lines }: ScenarioTask, since: number): string =>
  lines
    .filter(({ at, text }) => at >= since && !text.startsWith('event '))
    .map(({ at, text }) => `[${secs(at - since)}] ${text}`)
    .slice(-8)
    .join(' | ');

export class Injector {
  readonly #cluster: FailoverCluster;
  readonly #signal: AbortSignal;
  readonly #onNewJob: () => void;
  readonly #onStopped: InjectorOptions['onStopped'];

  constructor(cluster: FailoverCluster, { signal, onNewJob, onStopped }: InjectorOptions) {
    this.#cluster = cluster;
    this.#signal = signal;
    this.#onNewJob = onNewJob;
    this.#onStopped = onStopped;
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
      case 'new-job':
        return this.#newJob(fault);
      case 'cut':
        return this.#cut(fault);
      case 'block':
        return this.#block(fault);
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

  async #replace(fault: Of<'replace'>): Promise<string | undefined> {
    const { task, point, isStarting = false, restoring } = fault;
    const cluster = this.#cluster;
    let note: string | undefined;
    if (restoring) {
      await cluster.kill([restoring.task]);
      await cluster.prepareHold(restoring);
      await cluster.start(restoring.task);
      note = await this.#reached(restoring, () => cluster.held(restoring.task, RESTORE_POINT_MS));
    }
    if (isStarting) await cluster.kill([task]);
    if (point !== undefined) note = await this.#stopAt({ task, point }, isStarting);
    const { host, process } = cluster.task(task);
    await host.freeze(process);
    this.#onStopped(process);
    if (restoring) await cluster.release(restoring.task);
    await this.#replaceStopped(task, fault);
    return note;
  }

  /** Lets a task stop at a fault point; at the time limit it runs. */
  async #stopAt(hold: Hold, isStarting: boolean): Promise<string | undefined> {
    const cluster = this.#cluster;
    // With TensorFlow's servers a ps does not pass it.
    const hasPoint = !(hold.point.startsWith('lab.stage') && process.env.SHOAL_ENGINE === 'grpc');
    if (!isStarting)
      return hasPoint ? this.#reached(hold, () => cluster.hold(hold, SAVE_POINT_MS)) : undefined;
    if (hasPoint) await cluster.prepareHold(hold);
    await cluster.start(hold.task);
    const note = hasPoint
      ? await this.#reached(hold, () => cluster.held(hold.task, START_POINT_MS))
      : undefined;
    // One that has not joined when its successor starts would replace it.
    if (!hasPoint || note !== undefined)
      await cluster
        .task(hold.task)
        .process.waitFor(/^agent at/m, { timeoutMs: START_MS, signal: this.#signal });
    return note;
  }

  /** A new job on empty disks, whose chief is stopped at its start. */
  async #newJob(fault: Of<'new-job'>): Promise<string | undefined> {
    const cluster = this.#cluster;
    await cluster.killAll();
    // Their last lines belong to the former job.
    await Promise.all(TASKS.map((name) => cluster.task(name).process.exited));
    for (const name of TASKS) await cluster.hostOf(name).wipeDisk();
    this.#onNewJob();
    const hold = { task: CHIEF, point: fault.point };
    await cluster.startAll(cluster.options, hold);
    const note = await this.#reached(hold, () => cluster.held(CHIEF, START_MS));
    const { host, process } = cluster.task(CHIEF);
    await host.freeze(process);
    this.#onStopped(process);
    await this.#replaceStopped(CHIEF, fault);
    return note;
  }

  /** Launches the successor of a stopped task; lets the task continue, which must end as replaced. */
  async #replaceStopped(task: TaskName, { aloneMs, after, ms }: Return): Promise<void> {
    const cluster = this.#cluster;
    await this.#sleep(aloneMs);
    const launchedAt = Date.now();
    const former = await cluster.startSuccessor(task);
    if (after === 'training') {
      const [of, names] = task.startsWith('ps') ? ['workers', WORKERS] : [task, [task]];
      await until(
        `the ${of} to train with the successor of ${task}, while the process before it is stopped,`,
        () => {
          this.#signal.throwIfAborted();
          return names.every((name) => cluster.stepsSince(name as TaskName, launchedAt).length > 0);
        },
        SUCCESSOR_MS,
        20,
      ).catch(async (error: unknown) => {
        former.process.kill('SIGKILL');
        throw error;
      });
    }
    await this.#sleep(ms);
    const continuedAt = Date.now();
    await cluster.continueFormer(former);
    // Until its successor has joined, which takes long on a busy machine, it is the task.
    const { lines } = cluster.task(task);
    await until(
      `the successor of ${task} to join`,
      () => {
        this.#signal.throwIfAborted();
        return lines.some(({ text }) => text.startsWith('agent at'));
      },
      START_MS,
      20,
    ).catch((error: unknown) => {
      former.process.kill('SIGKILL');
      throw error;
    });
    const exit = await former.process
      .ended({ timeoutMs: EXIT_MS, signal: this.#signal })
      .catch(() => undefined);
    this.#signal.throwIfAborted();
    if (exit?.code !== EXIT.superseded) {
      former.process.kill('SIGKILL');
      const how = exit ? `ended with ${exit.signal ?? exit.code}` : `did not end within ${secs(EXIT_MS)}`;
      throw new Error(`${task} was replaced, continued and ${how}: ${linesSince(former, continuedAt)}`);
    }
    await former.host.wipeDisk();
  }

  /** A kernel that cannot destroy connections is only noted. */
  async #cut(fault: Of<'cut'>): Promise<string> {
    try {
      return await this.#cutEach(fault);
    } catch (error) {
      if (isShoalError(error, 'SHOAL_UNSUPPORTED')) return `NOT CUT: ${error.message}`;
      throw error;
    }
  }

  async #cutEach({ task, peer, opener, which, times, gapMs, isSilent }: Of<'cut'>): Promise<string> {
    const cluster = this.#cluster;
    const cuts: number[] = [];
    for (let round = 0; round < times; round++) {
      if (round > 0) await this.#sleep(gapMs);
      const [host, other] = [cluster.hostOf(task), cluster.hostOf(peer)];
      const all = (await connectionsTo(host, other)).filter(
        ({ isOutgoing }) => isOutgoing === (opener === 'task'),
      );
      const chosen = which === 'all' ? all : all.slice(Math.floor(which * all.length)).slice(0, 1);
      if (isSilent) await host.block(other);
      try {
        const made = await Promise.all(chosen.map((connection) => cutConnection(host, connection)));
        cuts.push(made.filter(Boolean).length);
        if (isSilent) await this.#sleep(SILENT_MS);
      } finally {
        if (isSilent) await host.unblock(other);
      }
    }
    return `${cuts.join(' + ')} connections of ${task} were cut`;
  }

  async #block({ task, ms }: Of<'block'>): Promise<undefined> {
    await this.#cluster.block(task, ms);
    await this.#sleep(ms);
    return undefined;
  }

  async #disturb(fault: Disturbance): Promise<undefined> {
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
    fault: Disturbance,
    host: LabHost,
    process: LabProcess,
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
