/** A soak: random faults against a job on the failover cluster, a check after each burst, and of the end of the job. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeError } from '../../src/base/errors/errors.js';
import { EXIT } from '../../src/base/errors/exit-codes.js';
import { decodeInput, inputFile } from '../../src/distributed/checkpoint/reading/input-file.js';
import { parseLedgerSnapshot } from '../../src/training/input/leases/ledger.js';
import { bundlePrograms } from '../cluster/bundle.js';
import { ClusterWatch, RECOVERY_MS, secs } from '../cluster/cluster-watch.js';
import { FailoverCluster, type FailoverJob, type LaunchOptions } from '../cluster/failover-cluster.js';
import { CHIEF, TASKS, type TaskName, WORKERS } from '../cluster/failover-tasks.js';
import { gather } from '../cluster/gather.js';
import type { Context } from '../experiment.js';
import { Lateness } from '../hosts/lateness.js';
import { Leftovers } from '../hosts/leftovers.js';
import { CONVERGED_SOON, learnt } from '../scenarios/line.js';
import type { ScenarioTask } from '../scenarios/scenario-run.js';
import { timesConsumed, wronglyApplied } from './applied.js';
import type { Burst } from './bursts.js';
import { describeFault, endedBy } from './faults.js';
import { Injector } from './injector.js';
import { Recorder } from './recorder.js';

/** How the workers train. */
export const MODES = {
  async: { sync: false },
  sync: { sync: true },
  deterministic: { sync: true, deterministic: true },
} as const;
export type Mode = keyof typeof MODES;

export interface SoakOptions {
  readonly job: FailoverJob;
  readonly mode: Mode;
  readonly bursts: readonly Burst[];
  /** After this time no further burst begins. */
  readonly minutes: number;
  /** The command that makes the faults from one on again, for messages. */
  readonly replay: (from: number, to: number) => string;
}

/** Hosts besides those of the tasks: a task that is replaced runs on two. */
const SPARE = 2;
const DISK_BYTES = 128 << 20;
/** The steps after the last fault, to the end of the job. */
const LAST_STEPS: Readonly<Record<Mode, number>> = { async: 2000, sync: 300, deterministic: 300 };
const SAVE_SECS = 0.5;
const RESULT = /· W = \[([-\d.e]+)\] · b = \[([-\d.e]+)\]/;
const KEEPS = 3;
/** How many problems of a burst are reported. */
const MOST_PROBLEMS = 6;
const more = (count: number): readonly string[] => (count > 0 ? [`${count} more`] : []);

/** The state of the job immediately before a burst. */
interface Before {
  readonly at: number;
  /** The highest step that was logged. */
  readonly step: number;
  readonly processes: ReadonlyMap<TaskName, ScenarioTask>;
}

export async function soak(ctx: Context, options: SoakOptions): Promise<void> {
  const lab = await ctx.lab({ hosts: TASKS.length + SPARE, diskBytes: DISK_BYTES });
  await using bundle = await bundlePrograms([options.job.program]);
  const leftovers = await Leftovers.before(lab);
  const cluster = new FailoverCluster(ctx, lab, options.job, bundle);
  const run = new SoakRun(ctx, cluster, options);
  const begun = performance.now();
  const minutes = () => (performance.now() - begun) / 60_000;
  let made = 0;
  for (const burst of options.bursts) {
    ctx.signal.throwIfAborted();
    if (minutes() > options.minutes) {
      ctx.log(`the time is over: continue with --from ${burst.faults[0]!.number}`);
      break;
    }
    await run.make(burst);
    made += burst.faults.length;
  }
  ctx.measure('faults', made, 'made');
  ctx.measure('faults per minute', made / minutes(), 'per minute');
  await run.end(leftovers);
  await lab.dispose();
}

class SoakRun {
  readonly #ctx: Context;
  readonly #cluster: FailoverCluster;
  readonly #options: SoakOptions;
  readonly #watch: ClusterWatch;
  readonly #injector: Injector;
  readonly #recorder: Recorder;
  readonly #begun = Date.now();
  #violations = 0;

  constructor(ctx: Context, cluster: FailoverCluster, options: SoakOptions) {
    this.#ctx = ctx;
    this.#cluster = cluster;
    this.#options = options;
    this.#watch = new ClusterWatch(ctx, cluster);
    this.#recorder = new Recorder(cluster);
    this.#injector = new Injector(cluster, {
      signal: ctx.signal,
      onNewJob: () => this.#recorder.add({ type: 'wiped' }),
      onStopped: (stopped) => {
        const process = cluster.started.findIndex((one) => one.process === stopped);
        this.#recorder.add({ type: 'stopped', process });
      },
    });
  }

  /** Makes a burst of faults and checks the recovery. If it fails, the next one starts the cluster again. */
  async make(burst: Burst): Promise<void> {
    const problems: string[] = [];
    let result = '';
    try {
      await this.#ensureTraining();
      result = await this.#recoversFrom(burst, problems);
    } catch (error) {
      this.#ctx.signal.throwIfAborted();
      problems.push(describeError(error));
    }
    problems.push(...this.#newViolations());
    const hasFailed = problems.length > 0;
    if (hasFailed) {
      const [first, last] = [burst.faults[0]!.number, burst.faults.at(-1)!.number];
      const logs = TASKS.map((name) => `${name}: ${this.#watch.linesOf(name)}`);
      problems.splice(MOST_PROBLEMS, Number.POSITIVE_INFINITY, ...more(problems.length - MOST_PROBLEMS));
      problems.push(...logs, `again with: ${this.#options.replay(first, last)}`);
    }
    for (const { number, fault } of burst.faults)
      this.#ctx.check(
        `fault ${number}: ${describeFault(fault)}`,
        !hasFailed,
        [result, ...problems].filter(Boolean).join('; '),
      );
    if (hasFailed) await this.#cluster.killAll();
  }

  get #launch(): LaunchOptions {
    return { ...MODES[this.#options.mode], replicas: 1, saveSecs: SAVE_SECS };
  }

  async #ensureTraining(): Promise<void> {
    if (this.#cluster.running.length === TASKS.length) return;
    await this.#cluster.killAll();
    const now = Date.now();
    await this.#cluster.startAll(this.#launch);
    await this.#watch.trainsSince(now);
    await this.#watch.savesSince(now);
  }

  /** Makes the faults; waits until all workers train and a checkpoint is saved. */
  async #recoversFrom(burst: Burst, problems: string[]): Promise<string> {
    const cluster = this.#cluster;
    const before = this.#before();
    const lateness = new Lateness();
    try {
      const notes = await this.#injector.make(burst);
      const healedAt = Date.now();
      await this.#watch.trainsSince(healedAt);
      await this.#watch.savesSince(healedAt);
      const tookMs = Date.now() - healedAt;
      const boundMs = RECOVERY_MS + lateness.between(healedAt, Date.now());
      if (tookMs > boundMs) problems.push(`the recovery took ${secs(tookMs)}, more than ${secs(boundMs)}`);
      const ended = new Set(burst.faults.flatMap(({ fault }) => endedBy(fault)));
      for (const name of TASKS) {
        const task = cluster.task(name);
        if (!task.process.running) problems.push(`${name} ended`);
        else if (!ended.has(name) && task !== before.processes.get(name))
          problems.push(`${name} was restarted`);
      }
      const lost = `${this.#lost(before)} steps lost`;
      return [`at ${secs(before.at - this.#begun)}, recovered in ${secs(tookMs)}, ${lost}`, ...notes].join(
        ', ',
      );
    } finally {
      lateness.stop();
    }
  }

  #before(): Before {
    const processes = new Map(TASKS.map((name) => [name, this.#cluster.task(name)]));
    const steps = WORKERS.map((name) => this.#cluster.stepsSince(name, 0).at(-1) ?? 0);
    return { at: Date.now(), step: Math.max(...steps), processes };
  }

  /** The steps that were made before a burst and restored away. */
  #lost({ at, step }: Before): number {
    const restores = this.#recorder.collect().restores.filter((restore) => restore.at >= at);
    return Math.max(0, ...restores.map((restore) => step - restore.step));
  }

  #newViolations(): readonly string[] {
    const { violations } = this.#recorder.collect();
    const found = violations.slice(this.#violations);
    this.#violations = violations.length;
    return found;
  }

  /** Stops the job, starts it again and lets it run to its last step; checks what it has learnt and left. */
  async end(leftovers: Leftovers): Promise<void> {
    const { job, mode } = this.#options;
    const cluster = this.#cluster;
    await this.#ensureTraining();
    for (const name of TASKS) cluster.task(name).process.kill('SIGINT');
    await this.#allExit('all tasks stop on SIGINT', [EXIT.done, EXIT.interrupted]);
    const unsaved = /the last checkpoint.* (could not be|is not) saved.*/.exec(
      cluster.task(CHIEF).process.output,
    )?.[0];
    this.#ctx.check('the chief saves its last step on SIGINT', unsaved === undefined, unsaved);
    const stoppedAt = await this.#checkStored('after SIGINT');
    const lastStep = stoppedAt + LAST_STEPS[mode];
    await cluster.startAll({ ...this.#launch, lastStep });
    await this.#allExit(`all tasks exit with 0 at step ${lastStep}`, [EXIT.done]);
    await this.#checkStored('at the end');
    if (RESULT.test(cluster.task(CHIEF).process.output))
      learnt(this.#ctx, cluster.task(CHIEF), RESULT, lastStep, CONVERGED_SOON);
    const belongs = ['.shoal', ...(job.data ? ['data'] : [])];
    await leftovers.check(this.#ctx, cluster.scenario, { keeps: KEEPS, belongs, away: cluster.spares });
    const violations = this.#recorder.violations();
    this.#ctx.check('the history is consistent', violations.length === 0, violations.join('; '));
  }

  async #allExit(what: string, codes: readonly number[]): Promise<void> {
    const problems = await Promise.all(TASKS.map((name) => this.#watch.exits(name, codes)));
    const found = problems.flatMap((problem) => problem ?? []);
    this.#ctx.check(what, found.length === 0, found.join('; '));
    if (found.length > 0) await this.#cluster.killAll();
  }

  /** Reads the newest checkpoint from the disks into the history; returns its step. */
  async #checkStored(when: string): Promise<number> {
    const { job } = this.#options;
    const directory = await mkdtemp(join(tmpdir(), 'shoal-soak-'));
    const before = this.#recorder.violations().length;
    try {
      const { path, step, ours } = await gather(this.#cluster.lab, directory, {
        job: job.name,
        home: `.shoal/${job.name}`,
      });
      this.#recorder.add({ type: 'restorable', step });
      if (job.batch !== undefined) await this.#checkLedger(path, step, job.batch, ours);
      const violations = this.#recorder.violations().slice(before);
      const what =
        job.batch === undefined ? 'the saved step' : 'the saved step, and its records applied once';
      this.#ctx.check(
        `${when} the disks have ${what}`,
        violations.length === 0,
        violations.join('; ') || `step ${step}`,
      );
      return step;
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }

  async #checkLedger(
    path: string,
    step: number,
    batch: number,
    tensors: Readonly<Record<string, unknown>>,
  ): Promise<void> {
    const file = inputFile(path);
    const ledger = parseLedgerSnapshot(decodeInput(await readFile(file), file).state)!;
    const { tables = [] } = this.#options.job;
    const expected = timesConsumed(ledger);
    const wrong = tables.flatMap((name) => wronglyApplied(expected, tensors[name] as number[]));
    this.#recorder.add({ type: 'applied', step, batch, consumed: ledger.consumed, wrong });
  }
}
