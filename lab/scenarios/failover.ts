/** Scenario 003: runs its cases on one cluster after another, and checks each. */
import { sleep } from '../../src/base/async/deadline.js';
import { describeError } from '../../src/base/errors/errors.js';
import { EXIT } from '../../src/base/errors/exit-codes.js';
import { ClusterWatch, GIVE_UP_MS, RECOVERY_MS, secs } from '../cluster/cluster-watch.js';
import { FailoverCluster, type LaunchOptions } from '../cluster/failover-cluster.js';
import { LEASED, LINE } from '../cluster/failover-jobs.js';
import { CHIEF, TASKS, type TaskName, WORKERS } from '../cluster/failover-tasks.js';
import type { Context } from '../experiment.js';
import { Lateness } from '../hosts/lateness.js';
import { Leftovers } from '../hosts/leftovers.js';
import type { FailoverCase } from './failover-cases.js';
import { CONVERGED_SOON, learnt } from './line.js';

/** Hosts besides those of the tasks: two tasks may move at once. */
const SPARE = 2;
/** The steps of a cluster whose end is tested. */
const LAST_STEPS = { async: 2000, sync: 300 } as const;
/** What a task logs that has waited for the others in vain. */
const ALONE = 'no other task is there';
const RESULT = /· W = \[([-\d.e]+)\] · b = \[([-\d.e]+)\]/;

export type Mode = keyof typeof LAST_STEPS;

/** The state of the job immediately before a fault. */
interface Before {
  readonly at: number;
  /** The newest checkpoint that was announced. */
  readonly saved: number | undefined;
  /** The highest step that was logged. */
  readonly step: number;
}

export async function failover(ctx: Context, mode: Mode, cases: readonly FailoverCase[]): Promise<void> {
  const lab = await ctx.lab({ hosts: TASKS.length + SPARE });
  const leftovers = await Leftovers.before(lab);
  const cluster = new FailoverCluster(ctx, lab, ctx.flags.leased === true ? LEASED : LINE);
  const run = new FailoverRun(ctx, cluster, mode);
  for (const failure of cases) {
    ctx.signal.throwIfAborted();
    await run.make(failure);
    if (failure.moment !== 'end') continue;
    const lastStep = cluster.options.lastStep as number;
    learnt(ctx, cluster.task(CHIEF), RESULT, lastStep, CONVERGED_SOON);
    await leftovers.check(ctx, cluster.scenario, {
      keeps: 3,
      belongs: ['.shoal', 'data'],
      away: cluster.spares,
    });
  }
  await cluster.killAll();
  await lab.dispose();
}

class FailoverRun {
  readonly #ctx: Context;
  readonly #cluster: FailoverCluster;
  readonly #watch: ClusterWatch;
  readonly #mode: Mode;
  readonly #problems: string[] = [];

  constructor(ctx: Context, cluster: FailoverCluster, mode: Mode) {
    this.#ctx = ctx;
    this.#cluster = cluster;
    this.#watch = new ClusterWatch(ctx, cluster);
    this.#mode = mode;
  }

  /** Makes one case. If it fails, the next one starts the cluster again. */
  async make(failure: FailoverCase): Promise<void> {
    const { moment, name } = failure;
    this.#problems.length = 0;
    let result = '';
    try {
      if (moment === 'end') result = await this.#atTheEnd(failure);
      else if (moment === 'start') result = await this.#atTheStart(failure);
      else result = await this.#whileTraining(failure);
    } catch (error) {
      this.#ctx.signal.throwIfAborted();
      this.#problems.push(
        describeError(error),
        ...TASKS.map((name) => `${name}: ${this.#watch.linesOf(name)}`),
      );
    }
    const hasFailed = this.#problems.length > 0;
    this.#ctx.check(
      `${this.#mode} ${name}`,
      !hasFailed,
      [result, ...this.#problems].filter(Boolean).join('; '),
    );
    if (hasFailed) await this.#cluster.killAll();
  }

  get #launch(): LaunchOptions {
    return { sync: this.#mode === 'sync', replicas: 1 };
  }

  async #whileTraining(failure: FailoverCase): Promise<string> {
    const { victims, moved, hold, replaced } = failure;
    // Two lost disks need two copies on other hosts.
    const replicas = moved && victims.length > 1 ? 2 : 1;
    await this.#ensureTraining({ ...this.#launch, replicas });
    const cluster = this.#cluster;
    let before = this.#before();
    if (replaced !== undefined) {
      await cluster.kill([replaced]);
      if (hold) await cluster.prepareHold(hold);
      await cluster.start(replaced);
      await cluster.held(replaced);
    } else if (hold) {
      await cluster.hold(hold);
      before = this.#before();
    }
    await cluster.kill(victims);
    if (hold && !victims.includes(hold.task)) await cluster.release(hold.task);
    const dead = new Set([...victims, ...(replaced === undefined ? [] : [replaced])]);
    if (
      this.#mode === 'async' &&
      !replaced &&
      victims.length === 1 &&
      victims[0] === CHIEF &&
      !cluster.isLeased
    )
      await this.#trainsWithoutChief();
    return this.#relaunch(failure, before, dead);
  }

  /** A victim is killed when its agent listens, before any step. */
  async #atTheStart(failure: FailoverCase): Promise<string> {
    const { victims } = failure;
    const cluster = this.#cluster;
    await cluster.killAll();
    const before = this.#before();
    await cluster.startAll(this.#launch);
    for (const name of victims) await this.#watch.logs(name, /^agent at/);
    const steps = WORKERS.flatMap((name) => cluster.stepsSince(name, before.at));
    if (steps.length > 0) this.#problems.push('it was killed after the first step');
    await cluster.kill(victims);
    return this.#relaunch(failure, before, new Set(TASKS));
  }

  /** A victim is killed during the last save; all tasks end. */
  async #atTheEnd({ victims, moved, hold }: FailoverCase): Promise<string> {
    const cluster = this.#cluster;
    await cluster.killAll();
    const { saved = 0, step } = this.#before();
    const lastStep = Math.max(step, saved) + LAST_STEPS[this.#mode];
    await cluster.startAll({ ...this.#launch, lastStep, saveSecs: 3600 }, hold);
    if (hold) await this.#heldAtLastSave(hold.task);
    const at = Date.now();
    await cluster.kill(victims);
    if (hold && !victims.includes(hold.task)) await cluster.release(hold.task);
    for (const name of victims) {
      if (moved) await cluster.move(name);
      await cluster.start(name);
    }
    await Promise.all(
      TASKS.map((name) => this.#exits(name, { mayBeAlone: name === 'worker 1' && victims.includes(name) })),
    );
    const late = victims.filter((name) => this.#watch.linesOf(name).includes(ALONE));
    const newest = cluster.savedStep ?? 0;
    if (newest < lastStep)
      this.#problems.push(`the last checkpoint is of step ${newest}, not of ${lastStep}`);
    const note = late.length > 0 ? `; ${late} was launched after the end, and said so` : '';
    return `the tasks exited ${secs(Date.now() - at)} after the fault, step ${newest}${note}`;
  }

  /** Other saves pass the fault point too: the last one is made when worker 1 has finished. */
  async #heldAtLastSave(task: TaskName): Promise<void> {
    const cluster = this.#cluster;
    const end = Date.now() + GIVE_UP_MS;
    const isFinished = () =>
      cluster
        .task('worker 1')
        .lines.some(({ text }) => /^staying for the last checkpoint|^done at/.test(text));
    while (Date.now() < end) {
      await cluster.held(task, GIVE_UP_MS);
      for (let i = 0; i < 10 && !isFinished(); i++) await sleep(50, this.#ctx.signal);
      if (isFinished()) return;
      await cluster.release(task, { isOver: false });
      await sleep(100, this.#ctx.signal);
    }
    throw new Error(`${task} did not reach the last save`);
  }

  /** Launches the victims again, and waits until all workers train and a checkpoint is saved. */
  async #relaunch(
    { victims, moved, wiped }: FailoverCase,
    before: Before,
    dead: ReadonlySet<TaskName>,
  ): Promise<string> {
    const cluster = this.#cluster;
    const lateness = new Lateness();
    const relaunchedAt = Date.now();
    if (wiped !== undefined) await cluster.hostOf(wiped).wipeDisk();
    for (const name of victims) {
      if (moved) await cluster.move(name);
      await cluster.start(name);
    }
    await this.#watch.trainsSince(relaunchedAt);
    const recoveredMs = Date.now() - before.at;
    await this.#watch.savesSince(relaunchedAt);
    lateness.stop();
    const boundMs = RECOVERY_MS + lateness.between(before.at, Date.now());
    if (recoveredMs > boundMs)
      this.#problems.push(`the recovery took ${secs(recoveredMs)}, more than ${secs(boundMs)}`);
    this.#othersContinued(dead);
    return `recovered in ${secs(recoveredMs)}, ${this.#lost(before, dead)} steps lost`;
  }

  #before(): Before {
    const { savedStep, step } = this.#cluster;
    return { at: Date.now(), saved: savedStep, step };
  }

  async #ensureTraining(options: LaunchOptions): Promise<void> {
    const cluster = this.#cluster;
    const isSame = JSON.stringify(cluster.options) === JSON.stringify(options);
    if (cluster.running.length < TASKS.length || !isSame) {
      await cluster.killAll();
      await cluster.startAll(options);
    }
    const now = Date.now();
    await this.#watch.trainsSince(now);
    await this.#watch.savesSince(now);
  }

  /** Until a dead chief is launched again, the other worker makes steps. */
  async #trainsWithoutChief(): Promise<void> {
    const at = Date.now() + 1000;
    await this.#watch.until(
      'worker 1 to train without a chief',
      () => this.#cluster.stepsSince('worker 1', at).length > 0,
    );
  }

  /**
   * Waits until a task has exited with 0. A worker whose disk lacks the last checkpoint, because it was dead when that was
   * saved, may be launched after the end: it says that no other task is there, and exits with 75.
   */
  async #exits(name: TaskName, { mayBeAlone }: { readonly mayBeAlone: boolean }): Promise<void> {
    const problem = await this.#watch.exits(name, mayBeAlone ? [EXIT.done, EXIT.retry] : [EXIT.done]);
    if (problem !== undefined) {
      this.#problems.push(problem);
      return;
    }
    const { code } = await this.#cluster.task(name).process.exited;
    if ((code === EXIT.retry) !== this.#watch.linesOf(name).includes(ALONE))
      this.#problems.push(
        `${name} ended with ${code}, its lines say otherwise: ${this.#watch.linesOf(name)}`,
      );
  }

  #othersContinued(dead: ReadonlySet<TaskName>): void {
    const ended = TASKS.filter((name) => !this.#cluster.task(name).process.running);
    for (const name of ended) this.#problems.push(`${name} ended${dead.has(name) ? ' again' : ''}`);
  }

  /** The steps that were lost. No announced checkpoint may be lost. */
  #lost({ at, saved, step }: Before, dead: ReadonlySet<TaskName>): number {
    const cluster = this.#cluster;
    const restores = cluster.restoresSince(at);
    const low = Math.min(...WORKERS.flatMap((name) => cluster.stepsSince(name, at)), ...restores);
    if (saved !== undefined && low < saved)
      this.#problems.push(`training went back to step ${low}, although step ${saved} was saved`);
    const hasLostPs = [...dead].some((name) => name.startsWith('ps'));
    // A ps completes a restore that a chief ordered before it died; nobody logs that.
    if (hasLostPs && saved !== undefined && restores.length === 0 && !dead.has(CHIEF))
      this.#problems.push('nothing was restored');
    if (!hasLostPs && !cluster.isLeased && restores.length > 0)
      this.#problems.push(`step ${restores[0]} was restored, although no ps was lost`);
    const newest = cluster.savedStep;
    if (saved !== undefined && newest !== undefined && newest < saved)
      this.#problems.push(`the newest checkpoint is of step ${newest}, older than ${saved}`);
    return hasLostPs || restores.length > 0 ? Math.max(0, step - low) : 0;
  }
}
