/**
 * The cluster of experiments 003 and soak: 2 ps and 2 workers on hosts of their own, and spare hosts. Tasks are killed,
 * also at a fault point of another task, and launched again on the same host or on a spare one with an empty disk.
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Context } from '../experiment.js';
import type { Lab, LabHost } from '../hosts/hosts.js';
import { processStat, until } from '../hosts/proc.js';
import { ROOT } from '../hosts/root.js';
import { Scenario, type ScenarioTask, savesOf } from '../scenarios/scenario-run.js';
import type { Bundle } from './bundle.js';
import { CHIEF, type Hold, roleOf, TASKS, type TaskName, WORKERS } from './failover-tasks.js';

/** A job that the cluster runs. */
export interface FailoverJob {
  /** Its name among the blobs. */
  readonly name: string;
  readonly program: string;
  /** The flags of the program besides those of LaunchOptions. */
  readonly flags?: readonly string[];
  /** The records of a step, if the input is leased. */
  readonly batch?: number;
  /** Variables that count how often each record was applied. */
  readonly tables?: readonly string[];
  /** The input files of the workers by name, in `data` of their disks; called once. */
  readonly data?: () => Promise<ReadonlyMap<string, Buffer>>;
  readonly env?: Readonly<Record<string, string>>;
}

export interface LaunchOptions {
  readonly sync: boolean;
  /** Synchronous training whose result does not depend on the order of the workers; default: false. */
  readonly deterministic?: boolean;
  /** Default: no end within the experiment. */
  readonly lastStep?: number;
  /** Seconds between checkpoints; default: 1. */
  readonly saveSecs?: number;
  /** Copies of each shard on other hosts; default: 1. */
  readonly replicas?: number;
}

/** Read by lab/programs/disturb.mjs. */
const DISTURB = pathToFileURL(join(ROOT, 'lab/programs/disturb.mjs')).href;
const FAULT_FILE = 'fault';
const CLOCK_FILE = 'clock';
const BLOCK_FILE = 'block';
/** How long a task may take to reach a fault point. */
const HOLD_MS = 60_000;

export class FailoverCluster {
  readonly scenario: Scenario;
  readonly lab: Lab;
  /** Every process of a task, oldest first. */
  readonly started: ScenarioTask[] = [];
  readonly job: FailoverJob;
  readonly #signal: AbortSignal;
  readonly #tasks = new Map<TaskName, ScenarioTask>();
  /** Every process of the chief, oldest first. */
  readonly #chiefs: ScenarioTask[] = [];
  #options: LaunchOptions = { sync: false };
  #data: Promise<ReadonlyMap<string, Buffer>> | undefined;

  /** @param bundle has the job's program; default: tasks load the sources. */
  constructor(ctx: Context, lab: Lab, job: FailoverJob, bundle?: Bundle) {
    this.lab = lab;
    this.#signal = ctx.signal;
    this.job = job;
    this.scenario = new Scenario(lab, {
      program: job.program,
      isJob: true,
      bundle,
      ps: 2,
      workers: 2,
      env: { NODE_OPTIONS: `--import ${DISTURB}`, ...job.env },
      logs: ctx.flags.logs as string | undefined,
    });
  }

  get isLeased(): boolean {
    return this.job.batch !== undefined;
  }

  get options(): LaunchOptions {
    return this.#options;
  }

  /** Whether any task runs. */
  get isRunning(): boolean {
    return this.running.length > 0;
  }

  get running(): readonly TaskName[] {
    return TASKS.filter((name) => this.#tasks.get(name)?.process.running);
  }

  task(name: TaskName): ScenarioTask {
    return this.#tasks.get(name) as ScenarioTask;
  }

  /** The step of the newest checkpoint that a chief has announced; undefined if there is none. */
  get savedStep(): number | undefined {
    const steps = this.#chiefs.flatMap((chief) => savesOf(chief).map(({ step }) => step));
    return steps.length === 0 ? undefined : Math.max(...steps);
  }

  /** The steps of the restores since a time. */
  restoresSince(at: number): readonly number[] {
    return this.#chiefs.flatMap(({ lines }) =>
      lines.flatMap((line) => {
        const step = /restored model\.ckpt-(\d+)/.exec(line.text)?.[1];
        return line.at >= at && step !== undefined ? [Number(step)] : [];
      }),
    );
  }

  /** The steps that the current process of a worker has logged since a time. */
  stepsSince(name: TaskName, at: number): readonly number[] {
    return this.#tasks.get(name)?.lines.flatMap((line) => stepIn(line, at)) ?? [];
  }

  /** The highest step that a worker has logged since the last restore. */
  get step(): number {
    const restored = this.#chiefs.flatMap(({ lines }) => lines.filter(({ text }) => /^restored /.test(text)));
    const since = Math.max(0, ...restored.map(({ at }) => at));
    return Math.max(0, this.savedStep ?? 0, ...WORKERS.flatMap((name) => this.stepsSince(name, since)));
  }

  /** Starts all tasks where they were last. The named one stops at the fault point. */
  async startAll(options: LaunchOptions, hold?: Hold): Promise<void> {
    this.#options = options;
    for (const name of TASKS) {
      if (name === hold?.task) await this.#setFault(name, hold.point);
      await this.start(name);
    }
  }

  /** Starts a task where it was last. */
  async start(name: TaskName): Promise<ScenarioTask> {
    const [job, index] = roleOf(name);
    const { sync, deterministic = false, lastStep, saveSecs, replicas } = this.#options;
    if (job === 'worker') await this.#writeData(this.hostOf(name));
    const flags = [
      ...(this.job.flags ?? []),
      ...(sync ? ['--sync'] : []),
      ...(deterministic ? ['--deterministic'] : []),
      ...(lastStep === undefined ? [] : ['--steps', String(lastStep)]),
      ...(saveSecs === undefined ? [] : ['--save-secs', String(saveSecs)]),
      ...(replicas === undefined ? [] : ['--replicas', String(replicas)]),
    ];
    const task = this.scenario.start(job, index, flags);
    this.#tasks.set(name, task);
    this.started.push(task);
    if (name === CHIEF) this.#chiefs.push(task);
    return task;
  }

  hostOf(name: TaskName): LabHost {
    return this.scenario.hostOf(...roleOf(name));
  }

  /** The hosts without a task. */
  get spares(): readonly LabHost[] {
    const used = new Set(TASKS.map((name) => this.hostOf(name)));
    return this.lab.hosts.filter((host) => !used.has(host));
  }

  /** Moves a task that is not running to a spare host with an empty disk. Its former disk is lost. */
  async move(name: TaskName): Promise<void> {
    const former = this.hostOf(name);
    await this.#moveToSpare(name);
    await former.wipeDisk();
  }

  /** Starts another process of a running task on a spare host with an empty disk; returns the running one. */
  async startSuccessor(name: TaskName): Promise<ScenarioTask> {
    const former = this.task(name);
    await this.#moveToSpare(name);
    await this.start(name);
    return former;
  }

  /** Lets a stopped process continue that has a successor; it stops at no fault point again. */
  async continueFormer({ host, process }: ScenarioTask): Promise<void> {
    await host.exec('rm', ['-f', FAULT_FILE]);
    process.kill('SIGUSR2');
    await host.thaw(process);
  }

  /** Blocks the main thread of a running task. */
  async block(name: TaskName, ms: number): Promise<void> {
    await this.hostOf(name).writeFile(BLOCK_FILE, String(ms));
    this.task(name).process.kill('SIGUSR2');
  }

  async #moveToSpare(name: TaskName): Promise<void> {
    const [spare] = this.spares;
    if (spare === undefined) throw new Error('no host is spare');
    await spare.wipeDisk();
    this.scenario.move(...roleOf(name), spare);
  }

  /** Makes the wall clock of a task wrong by some milliseconds, from its next start if it is not running; 0 corrects it. */
  async setClock(name: TaskName, offsetMs: number): Promise<void> {
    const host = this.hostOf(name);
    if (offsetMs === 0) await host.exec('rm', ['-f', CLOCK_FILE]);
    else await host.writeFile(CLOCK_FILE, String(offsetMs));
    this.#tasks.get(name)?.process.kill('SIGUSR2');
  }

  /** Kills tasks with SIGKILL; returns the time of the first signal. Their fault points are removed. */
  async kill(names: readonly TaskName[]): Promise<number> {
    const at = Date.now();
    for (const name of names) this.task(name).process.kill('SIGKILL');
    await until(
      'the killed tasks to end',
      () => names.every((name) => !this.task(name).process.running),
      30_000,
    );
    for (const name of names) await this.hostOf(name).exec('rm', ['-f', FAULT_FILE]);
    return at;
  }

  killAll(): Promise<number> {
    return this.kill(this.running);
  }

  /** Lets a running task stop at its next pass of a fault point, and waits until it has. */
  async hold({ task, point }: Hold, timeoutMs?: number): Promise<void> {
    await this.#setFault(task, point);
    this.task(task).process.kill('SIGUSR2');
    await this.held(task, timeoutMs);
  }

  /** Prepares a task that is not running to stop at a fault point: at its first pass, or at the one after a `#`. */
  prepareHold({ task, point }: Hold): Promise<void> {
    return this.#setFault(task, point.includes('#') ? point : `${point}#1`);
  }

  /** Waits until a task has stopped at its fault point. */
  async held(name: TaskName, timeoutMs = HOLD_MS): Promise<void> {
    const { process } = this.task(name);
    await until(
      `${name} to stop at its fault point`,
      async () => {
        this.#signal.throwIfAborted();
        return !process.running || (await processStat(process.pid))?.state === 'T';
      },
      timeoutMs,
      5,
    );
    if (!process.running) throw new Error(`${name} ended before its fault point`);
  }

  /** Continues a task that stopped at a fault point; with `isOver` it does not stop there again. */
  async release(name: TaskName, { isOver = true } = {}): Promise<void> {
    const { process, host } = this.task(name);
    if (isOver) await host.exec('rm', ['-f', FAULT_FILE]);
    if (isOver) process.kill('SIGUSR2');
    await host.thaw(process);
  }

  #setFault(name: TaskName, point: string): Promise<void> {
    return this.hostOf(name).writeFile(FAULT_FILE, `${point}=stop`);
  }

  async #writeData(host: LabHost): Promise<void> {
    this.#data ??= this.job.data?.();
    const files = await this.#data;
    if (!files || (await host.listFiles()).includes('data')) return;
    for (const [name, bytes] of files) await host.writeFile(`data/${name}`, bytes);
  }
}

function stepIn({ at, text }: ScenarioTask['lines'][number], since: number): readonly number[] {
  const step = /^step (\d+) of/.exec(text)?.[1];
  return at >= since && step !== undefined ? [Number(step)] : [];
}
