/**
 * A cluster on this machine: one process per task, each with its own directory, as if each were a separate machine.
 *
 *   start all → supervise each (restart it when it dies) → the workers are done, or one failed, or a signal arrived
 *   → stop gracefully: workers, chief, ps → no process is left
 *
 * When the workers are done, the launcher waits for the evaluator. If the evaluator fails, training continues.
 */
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { backoffMs } from '../../../base/async/backoff.js';
import { sleep } from '../../../base/async/deadline.js';
import { describeError } from '../../../base/errors/errors.js';
import { EXIT } from '../../../base/errors/exit-codes.js';
import { makeDirectorySync, requireDirectory } from '../../../base/files/directories.js';
import { parseEventLine } from '../../../base/text/events.js';
import type { JobEventData } from '../../../base/text/job-event.js';
import type { LogLevel } from '../../../base/text/log.js';
import { formatAddress } from '../../../distributed/cluster/spec/address.js';
import { tokenSecurity } from '../../../distributed/cluster/spec/security.js';
import { taskId } from '../../../distributed/cluster/spec/task-id.js';
import { describePage } from '../../page/serve/page-address.js';
import { taskDirectory } from '../directory/task-directory.js';
import { type ChildCommand, TaskChild } from './child.js';
import { claimDirectory, removeClusterFile, writeClusterFile } from './cluster-file.js';
import { finishedWorkersVariable } from './finished-workers.js';
import { Guard } from './guard.js';
import { describeEnding, judgeEnding, type Verdict } from './policy.js';
import { choosePorts } from './ports.js';
import { Progress } from './progress.js';
import type { Screen } from './screen.js';

export interface LocalClusterOptions {
  /** The name of the job. */
  readonly name: string;
  readonly ps: number;
  readonly workers: number;
  /** Whether a separate task evaluates the checkpoints. */
  readonly evaluator?: boolean;
  /** The parent of the tasks' directories. */
  readonly dir: string;
  readonly host: string;
  /** The command of a task, which reads its role from TF_CONFIG. */
  readonly entry: (taskDir: string) => ChildCommand;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly screen: Screen;
  /** The least level of the launcher's own lines; default: info. */
  readonly logLevel?: LogLevel;
  /** Stop gracefully. */
  readonly stop: AbortSignal;
  /** Kill all tasks. */
  readonly kill: AbortSignal;
  /** Consecutive restarts of one task before it has failed; 0 for none. */
  readonly maxRestarts: number;
  /** Restart with an empty directory, as on another machine. */
  readonly wipe: boolean;
  /** How long a task may take to stop. */
  readonly graceMs: number;
  readonly lastStep?: number;
  /** Whether a task that is started again resumes from a checkpoint; default: true. */
  readonly resumes?: boolean;
  /** Returns the last lines of a run that is done, such as its results. Default: none. */
  readonly results?: (() => Promise<readonly string[]>) | undefined;
  readonly backoff?: { readonly baseMs: number; readonly maxMs: number };
  readonly steadyMs?: number;
}

/** A task and its current process. */
interface LocalTask {
  readonly job: 'ps' | 'worker' | 'evaluator';
  readonly index: number;
  readonly label: string;
  readonly dir: string;
  address: string;
  port: number;
  child: TaskChild | undefined;
  restarts: number;
  /** The highest step of training at the last restart. */
  restartedAt: number | undefined;
}

type Failure = Extract<Verdict, { kind: 'failed' }> & { readonly task: LocalTask };

/** The name of the launcher in its log lines. */
export const LAUNCHER = 'shoal';
/** A ps exits after the leave messages of the workers, which is shortly before their processes end. */
const LEAVE_MS = 3000;

/** Variables that tasks must not inherit: the launcher sets these options itself. */
const NOT_INHERITED = [
  'SHOAL_CONFIG',
  'SHOAL_LISTEN',
  'SHOAL_TF_PORT',
  'SHOAL_CERTS',
  'SHOAL_CLUSTER_TOKEN_FILE',
] as const;

/** Runs the cluster to its end and returns the exit code. */
export async function runLocalCluster(options: LocalClusterOptions): Promise<number> {
  claimDirectory(options.dir);
  const { ps, workers, evaluator = false } = options;
  const roles = [
    ...Array.from({ length: ps }, (_, index) => ({ job: 'ps', index }) as const),
    ...Array.from({ length: workers }, (_, index) => ({ job: 'worker', index }) as const),
    ...(evaluator ? [{ job: 'evaluator', index: 0 } as const] : []),
  ];
  const ports = await choosePorts(options.host, roles.length);
  const tasks = roles.map(({ job, index }, position): LocalTask => {
    const port = ports[position]!;
    return {
      job,
      index,
      label: `${job} ${index}`,
      dir: taskDirectory(options.dir, job, index),
      port,
      address: formatAddress({ host: options.host, port }),
      child: undefined,
      restarts: 0,
      restartedAt: undefined,
    };
  });
  for (const { dir } of tasks) requireDirectory(dir, '--dir');
  return new LocalCluster(options, tasks).run();
}

const isChief = ({ job, index }: LocalTask): boolean => job === 'worker' && index === 0;

class LocalCluster {
  readonly #options: LocalClusterOptions;
  readonly #tasks: readonly LocalTask[];
  readonly #token = randomBytes(32).toString('base64url');
  readonly #guard = new Guard();
  readonly #progress: Progress;
  /** The indices of the workers that are done. */
  readonly #finished = new Set<number>();
  /** Aborted when no more tasks may be started. */
  readonly #ending = new AbortController();

  constructor(options: LocalClusterOptions, tasks: readonly LocalTask[]) {
    this.#options = options;
    this.#tasks = tasks;
    this.#progress = this.#makeProgress();
  }

  async run(): Promise<number> {
    const { screen, kill, dir } = this.#options;
    screen.expect([LAUNCHER, ...this.#tasks.map(({ label }) => label)]);
    const killAll = () => {
      for (const { child } of this.#tasks) child?.kill();
    };
    kill.addEventListener('abort', killAll);
    const progress = this.#progress;
    try {
      this.#log(`job ${this.#options.name}, tasks in ${dir}`);
      const supervised = this.#tasks.map((task) => this.#supervise(task));
      this.#writeFile();
      this.#logPage();
      progress.start();
      const code = await this.#outcome(supervised);
      this.#ending.abort();
      // The line would count tasks that are asked to stop.
      await progress.stop();
      await this.#stopGracefully();
      await Promise.all(supervised.map((one) => one.catch(() => {})));
      if (code === EXIT.done) for (const line of (await this.#options.results?.()) ?? []) this.#log(line);
      return code;
    } finally {
      this.#ending.abort();
      killAll();
      await Promise.all(this.#tasks.map(({ child }) => child?.ended));
      kill.removeEventListener('abort', killAll);
      await progress.stop();
      await this.#guard.close();
      removeClusterFile(dir);
      screen.close();
    }
  }

  /** Waits for the first of: all workers and the evaluator done, a task failed permanently, a request to stop. */
  async #outcome(supervised: readonly Promise<Verdict>[]): Promise<number> {
    const { stop, screen } = this.#options;
    const of = (job: LocalTask['job']) =>
      supervised.filter((_, position) => this.#tasks[position]!.job === job);
    const failure = new Promise<Failure>((fail, broken) => {
      supervised.forEach((one, position) => {
        const task = this.#tasks[position]!;
        one.then((verdict) => {
          if (verdict.kind !== 'failed') return;
          if (task.job !== 'evaluator') fail({ ...verdict, task });
          else if (!this.#ending.signal.aborted) {
            this.#report({ ...verdict, task });
            this.#log(`${task.label} is not restarted; training continues`);
          }
        }, broken);
      });
    });
    const stopped = new Promise<'stopped'>((done) => {
      if (stop.aborted) done('stopped');
      stop.addEventListener('abort', () => done('stopped'), { once: true });
    });
    const allDone = async (): Promise<number | Failure> => {
      const verdicts = await Promise.all(of('worker'));
      // `failure` reports the worker that failed.
      if (!verdicts.every(({ kind }) => kind === 'finished')) return failure;
      this.#log('all workers are done');
      const [evaluator] = this.#tasks.filter(({ job }) => job === 'evaluator');
      if (evaluator?.child?.alive)
        this.#log(`waiting for ${evaluator.label}: it evaluates the last checkpoint`);
      const [verdict] = await Promise.all(of('evaluator'));
      return verdict?.kind === 'failed' ? verdict.code : EXIT.done;
    };
    const end = await Promise.race([stopped, failure, allDone()]);
    screen.status([]);
    if (end === 'stopped') {
      this.#log('stopping: workers first, then the chief, then the ps; a second signal kills them');
      return EXIT.interrupted;
    }
    if (typeof end === 'number') return end;
    this.#report(end);
    return end.code;
  }

  /** Keeps a task running until it has finished, has failed permanently, or the cluster stops. */
  async #supervise(task: LocalTask): Promise<Verdict> {
    const { maxRestarts, wipe, host, steadyMs = 30_000, resumes = true } = this.#options;
    const backoff = this.#options.backoff ?? { baseMs: 250, maxMs: 10_000 };
    for (;;) {
      const child = this.#launch(task);
      const ending = await child.ended;
      this.#guard.release(child.pid);
      const { uptimeMs, pid } = child;
      const how = `${task.label} ${describeEnding(ending)}`;
      this.#log(how, 'debug', { event: 'taskEnded', member: task.label, pid, ...ending });
      const step = this.#progress.highestStep;
      // A task that fails again at the same step has not recovered, however long its process ran.
      const hasProgressed = task.restartedAt === undefined || step === undefined || step > task.restartedAt;
      if (uptimeMs >= steadyMs && hasProgressed) task.restarts = 0;
      // Without a checkpoint the task would train everything again, alone.
      const isOver = this.#finished.size > 0 && !resumes;
      const run = { job: task.job, ending, uptimeMs, restarts: task.restarts, isOver };
      const verdict = judgeEnding(run, { maxRestarts, steadyMs });
      if (verdict.kind === 'finished' && task.job === 'worker') this.#finished.add(task.index);
      const hasLeft = task.job === 'ps' && ending.code === EXIT.done;
      if (this.#ending.signal.aborted || (verdict.kind !== 'restart' && !hasLeft)) return verdict;
      const waitMs = ending.code === EXIT.done ? LEAVE_MS : backoffMs(task.restarts, backoff);
      try {
        await sleep(waitMs, this.#ending.signal);
      } catch {
        return verdict;
      }
      if (verdict.kind !== 'restart') return verdict;
      task.restarts++;
      task.restartedAt = this.#progress.highestStep;
      const again = `restart ${task.restarts} of at most ${maxRestarts}`;
      this.#log(`${task.label} ${verdict.why}; ${again}${wipe ? ', with an empty directory' : ''}`, 'warn', {
        event: 'taskRestarted',
        member: task.label,
        restarts: task.restarts,
        why: verdict.why,
      });
      const taken = this.#tasks.map(({ port }) => port);
      task.port = (await choosePorts(host, 1, { avoid: taken }))[0]!;
      task.address = formatAddress({ host, port: task.port });
      if (wipe) rmSync(task.dir, { recursive: true, force: true });
      if (this.#ending.signal.aborted) return verdict;
      this.#writeFile();
      if (isChief(task)) this.#logPage();
    }
  }

  #launch(task: LocalTask): TaskChild {
    const { entry, screen } = this.#options;
    makeDirectorySync(task.dir);
    const child = new TaskChild({
      ...entry(task.dir),
      env: this.#environment(task),
      onLine: (line, side) => screen.taskLine(task.label, line, side),
      congestion: (side) => screen.congestion(side),
    });
    this.#guard.watch(child.pid);
    task.child = child;
    const chief = isChief(task) ? ' (chief)' : '';
    this.#log(`${task.label}${chief} is process ${child.pid}, agent ${task.address}`, 'info', {
      event: 'taskStarted',
      member: task.label,
      pid: child.pid,
      address: task.address,
    });
    if (this.#options.kill.aborted) child.kill();
    return child;
  }

  #environment(task: LocalTask): Readonly<Record<string, string | undefined>> {
    const addresses = (job: LocalTask['job']) =>
      this.#tasks.filter((other) => other.job === job).map(({ address }) => address);
    const cluster = {
      ps: addresses('ps'),
      worker: addresses('worker'),
      ...(this.#options.evaluator && { evaluator: addresses('evaluator') }),
    };
    const env: Record<string, string | undefined> = { ...this.#options.env };
    for (const name of NOT_INHERITED) delete env[name];
    return {
      ...env,
      TF_CONFIG: JSON.stringify({ cluster, task: { type: task.job, index: task.index } }),
      ...finishedWorkersVariable([...this.#finished]),
      SHOAL_CLUSTER_NAME: this.#options.name,
      SHOAL_CLUSTER_TOKEN: this.#token,
    };
  }

  /**
   * The tasks in the order in which they stop: the chief saves after the workers have stopped, and while the ps still
   * run. No task depends on the evaluator.
   */
  #phases(): readonly (readonly LocalTask[])[] {
    return [
      this.#tasks.filter((task) => task.job !== 'ps' && !isChief(task)),
      this.#tasks.filter(isChief),
      this.#tasks.filter((task) => task.job === 'ps'),
    ];
  }

  async #stopGracefully(): Promise<void> {
    const { graceMs, kill } = this.#options;
    for (const phase of this.#phases()) {
      const running = phase.filter(({ child }) => child?.alive);
      if (running.length === 0) continue;
      for (const { child } of running) child!.stop();
      const ended = Promise.all(running.map(({ child }) => child!.ended));
      const stopWaiting = new AbortController();
      const late = await Promise.race([
        ended.then(() => false),
        sleep(graceMs, AbortSignal.any([kill, stopWaiting.signal])).then(
          () => true,
          () => true,
        ),
      ]);
      // A pending timer would keep the launcher alive.
      stopWaiting.abort();
      if (!late) continue;
      for (const { child, label } of running) {
        if (!child!.alive) continue;
        if (!kill.aborted) this.#log(`${label} did not stop within ${graceMs / 1000} s: killed`, 'warn');
        child!.kill();
      }
      await ended;
    }
  }

  /** Repeats the last lines of a failed task on standard error, unless it has written its error there. */
  #report({ task, why }: Failure): void {
    const { screen } = this.#options;
    if (task.child?.hasReportedError) {
      screen.line(LAUNCHER, `${task.label} ${why}; its error is above`, 'stderr');
      return;
    }
    screen.line(LAUNCHER, `${task.label} ${why}; its last lines:`, 'stderr');
    const lines = task.child?.lastLines ?? [];
    for (const line of lines) screen.line(LAUNCHER, `  ${parseEventLine(line)?.message ?? line}`, 'stderr');
    if (lines.length === 0) screen.line(LAUNCHER, '  (it wrote nothing)', 'stderr');
  }

  #makeProgress(): Progress {
    const { screen, lastStep } = this.#options;
    return new Progress({
      addresses: () => this.#agents((task) => task.child?.alive === true),
      security: tokenSecurity(this.#token),
      lastStep,
      everyMs: screen.live ? 1000 : 10_000,
      onLines: (summary, tasks, data) =>
        screen.live ? screen.status([...tasks, summary]) : this.#log(summary, 'info', data),
      tasks: () =>
        this.#tasks.map(({ label, job, index, child, restarts }) => ({
          label,
          task: taskId(job, index),
          pid: child?.pid,
          isRunning: child?.alive === true,
          restarts,
        })),
    });
  }

  #agents(which: (task: LocalTask) => boolean): readonly string[] {
    const [, chief = [], ps = []] = this.#phases();
    return [...chief, ...ps].filter(which).map(({ address }) => address);
  }

  #logPage(): void {
    const chief = this.#tasks.find(isChief);
    if (chief === undefined) return;
    const { host, dir, screen } = this.#options;
    const place = { host, port: chief.port, token: this.#token, dir, isScreen: screen.live };
    this.#log(describePage(place));
  }

  #writeFile(): void {
    try {
      const { name, dir } = this.#options;
      const agents = this.#agents(() => true);
      writeClusterFile(dir, { job: name, launcher: process.pid, token: this.#token, agents: [...agents] });
    } catch (error) {
      this.#log(
        `cannot write cluster.json, so shoal status will not find this cluster: ${describeError(error)}`,
        'warn',
      );
    }
  }

  #log(line: string, level: LogLevel = 'info', data?: JobEventData): void {
    const { screen, logLevel = 'info' } = this.#options;
    screen.log(LAUNCHER, logLevel)(line, level, data);
  }
}
