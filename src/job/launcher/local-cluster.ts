/**
 * A cluster on this machine: one process per task, each with a directory of its own, as if each were a machine.
 *
 *   start all → tend each (relaunch it when it dies) → the workers are done, or one failed, or a signal came
 *   → stop in order: workers, chief, ps → nothing left
 *
 * An evaluator is waited for when the workers are done; that it fails does not end the training of the others.
 */
import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync } from 'node:fs';
import { backoffMs } from '../../async/backoff.js';
import { sleep } from '../../async/deadline.js';
import { formatAddress } from '../../cluster/spec/address.js';
import { tokenSecurity } from '../../cluster/spec/security.js';
import { messageOf } from '../../errors/errors.js';
import { EXIT } from '../../errors/exit-codes.js';
import { requireDirectory, taskDirectory } from '../task-directory.js';
import { type ChildCommand, TaskChild } from './child.js';
import { claimDirectory, removeClusterFile, writeClusterFile } from './cluster-file.js';
import { Guard } from './guard.js';
import { judgeEnding, type Verdict } from './policy.js';
import { choosePorts } from './ports.js';
import { Progress } from './progress.js';
import type { Screen } from './screen.js';

export interface LocalClusterOptions {
  /** The name of the job. */
  readonly name: string;
  readonly ps: number;
  readonly workers: number;
  /** Whether a task of its own evaluates the checkpoints. */
  readonly evaluator?: boolean | undefined;
  /** Each task lives in a directory of its own in here. */
  readonly dir: string;
  readonly host: string;
  /** How a task is started; who it is stands in TF_CONFIG. */
  readonly entry: (taskDir: string) => ChildCommand;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly screen: Screen;
  /** Stop in order. */
  readonly stop: AbortSignal;
  /** Stop at once. */
  readonly kill: AbortSignal;
  /** Relaunches in a row of one task; 0 for none. */
  readonly maxRestarts: number;
  /** Relaunch with an empty directory, as on another machine. */
  readonly wipe: boolean;
  /** How long a task may take to stop. */
  readonly graceMs: number;
  readonly lastStep?: number | undefined;
  readonly backoff?: { readonly baseMs: number; readonly maxMs: number };
  readonly steadyMs?: number;
}

/** A place in the cluster; processes come and go on it. */
interface Seat {
  readonly job: 'ps' | 'worker' | 'evaluator';
  readonly index: number;
  readonly label: string;
  readonly dir: string;
  address: string;
  port: number;
  child: TaskChild | undefined;
  restarts: number;
}

type Failure = Extract<Verdict, { kind: 'failed' }> & { readonly seat: Seat };

const LAUNCHER = 'shoal';
/** A ps leaves as soon as the workers have said good-bye, which is a little before their processes end. */
const LEAVE_MS = 3000;

/** What the launcher decides itself must not come in from outside. */
const RULED = [
  'SHOAL_CONFIG',
  'SHOAL_LISTEN',
  'SHOAL_TF_PORT',
  'SHOAL_CERTS',
  'SHOAL_CLUSTER_TOKEN_FILE',
] as const;

/** Runs the cluster to its end and gives the exit code of the whole. */
export async function runLocalCluster(options: LocalClusterOptions): Promise<number> {
  claimDirectory(options.dir);
  const { ps, workers, evaluator = false } = options;
  const places = [
    ...Array.from({ length: ps }, (_, index) => ({ job: 'ps', index }) as const),
    ...Array.from({ length: workers }, (_, index) => ({ job: 'worker', index }) as const),
    ...(evaluator ? [{ job: 'evaluator', index: 0 } as const] : []),
  ];
  const ports = await choosePorts(options.host, places.length);
  const seats = places.map(({ job, index }, position): Seat => {
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
    };
  });
  for (const { dir } of seats) requireDirectory(dir, '--dir');
  return new LocalCluster(options, seats).run();
}

class LocalCluster {
  readonly #options: LocalClusterOptions;
  readonly #seats: readonly Seat[];
  readonly #token = randomBytes(32).toString('base64url');
  readonly #guard = new Guard();
  /** Fires when nothing is to be launched any more. */
  readonly #ending = new AbortController();

  constructor(options: LocalClusterOptions, seats: readonly Seat[]) {
    this.#options = options;
    this.#seats = seats;
  }

  async run(): Promise<number> {
    const { screen, kill, dir } = this.#options;
    screen.expect([LAUNCHER, ...this.#seats.map(({ label }) => label)]);
    const killAll = () => {
      for (const { child } of this.#seats) child?.kill();
    };
    kill.addEventListener('abort', killAll);
    const progress = this.#progress();
    try {
      this.#say(`job ${this.#options.name}, tasks in ${dir}`);
      const tended = this.#seats.map((seat) => this.#tend(seat));
      this.#writeFile();
      progress.start();
      const code = await this.#outcome(tended);
      this.#ending.abort();
      await this.#stopInOrder();
      await Promise.all(tended.map((one) => one.catch(() => {})));
      return code;
    } finally {
      this.#ending.abort();
      killAll();
      await Promise.all(this.#seats.map(({ child }) => child?.ended));
      kill.removeEventListener('abort', killAll);
      await progress.stop();
      await this.#guard.close();
      removeClusterFile(dir);
      screen.close();
    }
  }

  /** Waits for the first of: all workers and the evaluator done, a task failed for good, a request to stop. */
  async #outcome(tended: readonly Promise<Verdict>[]): Promise<number> {
    const { stop, screen } = this.#options;
    const of = (job: Seat['job']) => tended.filter((_, position) => this.#seats[position]!.job === job);
    const failure = new Promise<Failure>((fail, broken) => {
      tended.forEach((one, position) => {
        const seat = this.#seats[position]!;
        one.then((verdict) => {
          if (verdict.kind !== 'failed') return;
          if (seat.job !== 'evaluator') fail({ ...verdict, seat });
          else if (!this.#ending.signal.aborted) {
            this.#report({ ...verdict, seat });
            this.#say(`${seat.label} is given up; training goes on`);
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
      // A failure among them is told by the failure itself.
      if (!verdicts.every(({ kind }) => kind === 'finished')) return failure;
      this.#say('all workers are done');
      const [evaluator] = this.#seats.filter(({ job }) => job === 'evaluator');
      if (evaluator?.child?.alive)
        this.#say(`waiting for ${evaluator.label}: it has the last checkpoint to see`);
      const [verdict] = await Promise.all(of('evaluator'));
      return verdict?.kind === 'failed' ? verdict.code : EXIT.done;
    };
    const end = await Promise.race([stopped, failure, allDone()]);
    screen.status('');
    if (end === 'stopped') {
      this.#say('stopping: workers first, then the chief, then the ps; once more stops at once');
      return EXIT.interrupted;
    }
    if (typeof end === 'number') return end;
    this.#report(end);
    return end.code;
  }

  /** Keeps a task running until it is finished, has failed for good, or nothing is to run any more. */
  async #tend(seat: Seat): Promise<Verdict> {
    const { maxRestarts, wipe, host, steadyMs = 30_000 } = this.#options;
    const backoff = this.#options.backoff ?? { baseMs: 250, maxMs: 10_000 };
    for (;;) {
      const child = this.#launch(seat);
      const ending = await child.ended;
      this.#guard.release(child.pid);
      const { uptimeMs } = child;
      if (uptimeMs >= steadyMs) seat.restarts = 0;
      const life = { job: seat.job, ending, uptimeMs, restarts: seat.restarts };
      const verdict = judgeEnding(life, { maxRestarts, steadyMs });
      if (this.#ending.signal.aborted || verdict.kind !== 'restart') return verdict;
      const waitMs = ending.code === EXIT.done ? LEAVE_MS : backoffMs(seat.restarts, backoff);
      try {
        await sleep(waitMs, this.#ending.signal);
      } catch {
        return verdict;
      }
      seat.restarts++;
      const again = `relaunch ${seat.restarts} of at most ${maxRestarts}`;
      this.#say(`${seat.label} ${verdict.why}; ${again}${wipe ? ', with an empty directory' : ''}`);
      const taken = this.#seats.map(({ port }) => port);
      seat.port = (await choosePorts(host, 1, { avoid: taken }))[0]!;
      seat.address = formatAddress({ host, port: seat.port });
      if (wipe) rmSync(seat.dir, { recursive: true, force: true });
      if (this.#ending.signal.aborted) return verdict;
      this.#writeFile();
    }
  }

  #launch(seat: Seat): TaskChild {
    const { entry, screen } = this.#options;
    mkdirSync(seat.dir, { recursive: true });
    const child = new TaskChild({
      ...entry(seat.dir),
      env: this.#environment(seat),
      onLine: (line, side) => screen.line(seat.label, line, side),
      congestion: (side) => screen.congestion(side),
    });
    this.#guard.watch(child.pid);
    seat.child = child;
    const chief = seat.job === 'worker' && seat.index === 0 ? ' (chief)' : '';
    this.#say(`${seat.label}${chief} is process ${child.pid}, agent ${seat.address}`);
    if (this.#options.kill.aborted) child.kill();
    return child;
  }

  #environment(seat: Seat): Readonly<Record<string, string | undefined>> {
    const addresses = (job: Seat['job']) =>
      this.#seats.filter((other) => other.job === job).map(({ address }) => address);
    const cluster = {
      ps: addresses('ps'),
      worker: addresses('worker'),
      ...(this.#options.evaluator && { evaluator: addresses('evaluator') }),
    };
    const env: Record<string, string | undefined> = { ...this.#options.env };
    for (const name of RULED) delete env[name];
    return {
      ...env,
      TF_CONFIG: JSON.stringify({ cluster, task: { type: seat.job, index: seat.index } }),
      SHOAL_CLUSTER_NAME: this.#options.name,
      SHOAL_CLUSTER_TOKEN: this.#token,
    };
  }

  /**
   * Who is asked to stop at the same time; the chief saves while the ps are there, and after the workers. The evaluator
   * holds nothing that anybody waits for.
   */
  #phases(): readonly (readonly Seat[])[] {
    const isChief = ({ job, index }: Seat) => job === 'worker' && index === 0;
    return [
      this.#seats.filter((seat) => seat.job !== 'ps' && !isChief(seat)),
      this.#seats.filter(isChief),
      this.#seats.filter((seat) => seat.job === 'ps'),
    ];
  }

  async #stopInOrder(): Promise<void> {
    const { graceMs, kill } = this.#options;
    for (const phase of this.#phases()) {
      const running = phase.filter(({ child }) => child?.alive);
      if (running.length === 0) continue;
      for (const { child } of running) child!.stop();
      const ended = Promise.all(running.map(({ child }) => child!.ended));
      const enough = new AbortController();
      const late = await Promise.race([
        ended.then(() => false),
        sleep(graceMs, AbortSignal.any([kill, enough.signal])).then(
          () => true,
          () => true,
        ),
      ]);
      // A timer that nobody waits for would hold the launcher.
      enough.abort();
      if (!late) continue;
      for (const { child, label } of running) {
        if (!child!.alive) continue;
        if (!kill.aborted) this.#say(`${label} did not stop within ${graceMs / 1000} s: killed`);
        child!.kill();
      }
      await ended;
    }
  }

  /** The last lines of the task that failed, where its own were long scrolled away. */
  #report({ seat, why }: Failure): void {
    const { screen } = this.#options;
    screen.line(LAUNCHER, `${seat.label} ${why}; its last lines:`, 'stderr');
    const lines = seat.child?.lastLines ?? [];
    for (const line of lines) screen.line(LAUNCHER, `  ${line}`, 'stderr');
    if (lines.length === 0) screen.line(LAUNCHER, '  (it wrote nothing)', 'stderr');
  }

  #progress(): Progress {
    const { screen, lastStep } = this.#options;
    return new Progress({
      addresses: () => this.#agents((seat) => seat.child?.alive === true),
      security: tokenSecurity(this.#token),
      lastStep,
      everyMs: screen.live ? 1000 : 10_000,
      onLine: (line) => (screen.live ? screen.status(line) : this.#say(line)),
      tasks: () => ({
        alive: this.#seats.filter(({ child }) => child?.alive).length,
        all: this.#seats.length,
      }),
    });
  }

  #agents(which: (seat: Seat) => boolean): readonly string[] {
    const [, chief = [], ps = []] = this.#phases();
    return [...chief, ...ps].filter(which).map(({ address }) => address);
  }

  #writeFile(): void {
    try {
      const { name, dir } = this.#options;
      const agents = this.#agents(() => true);
      writeClusterFile(dir, { job: name, launcher: process.pid, token: this.#token, agents: [...agents] });
    } catch (error) {
      this.#say(`shoal status will not find this cluster: ${messageOf(error)}`);
    }
  }

  #say(line: string): void {
    this.#options.screen.line(LAUNCHER, line);
  }
}
