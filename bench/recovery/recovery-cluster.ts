/** A cluster of either side with 2 ps and 2 workers on this machine, whose tasks are killed and started again. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { commandOf, environmentOf, localAddresses, type Side } from '../harness.js';

export const TASKS = ['ps 0', 'ps 1', 'worker 0', 'worker 1'] as const;
export type TaskName = (typeof TASKS)[number];
export const CHIEF: TaskName = 'worker 0';
export const WORKERS: readonly TaskName[] = ['worker 0', 'worker 1'];

const TIMEOUT_MS = 120_000;
/** How many of its last lines the error about a task shows. */
const SHOWN_LINES = 15;

export interface Line {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly text: string;
}

interface Task {
  readonly child: ChildProcess;
  readonly startedAt: number;
  readonly lines: Line[];
  readonly ended: Promise<void>;
}

/** Milliseconds since 1970, with fractions. */
export const clock = (): number => performance.timeOrigin + performance.now();

export class RecoveryCluster {
  readonly #side: Side;
  /** Has the directories of the tasks; Python's tasks share one. */
  readonly #parent: string;
  readonly #hosts: readonly string[];
  readonly #tasks = new Map<TaskName, Task>();
  readonly #watchers = new Set<() => void>();

  private constructor(side: Side, parent: string, hosts: readonly string[]) {
    this.#side = side;
    this.#parent = parent;
    this.#hosts = hosts;
  }

  static async create(side: Side, parent: string): Promise<RecoveryCluster> {
    return new RecoveryCluster(side, parent, await localAddresses(TASKS.length));
  }

  directoryOf(name: TaskName): string {
    return join(this.#parent, this.#side === 'python' ? 'shared' : name.replace(' ', '-'));
  }

  addressOf(name: TaskName): string {
    return this.#hosts[TASKS.indexOf(name)] as string;
  }

  async startAll(): Promise<void> {
    for (const name of TASKS) await this.start(name);
  }

  /** Starts a task; returns when. */
  async start(name: TaskName): Promise<number> {
    const directory = this.directoryOf(name);
    await mkdir(directory, { recursive: true });
    const [job, index] = name.split(' ') as [string, string];
    const [command, file] = commandOf(this.#side, 'recovery-task');
    const args = [
      file,
      `--job_name=${job}`,
      `--task_index=${index}`,
      `--ps_hosts=${this.#hosts.slice(0, 2)}`,
      `--worker_hosts=${this.#hosts.slice(2)}`,
    ];
    const startedAt = clock();
    const child = spawn(command, args, {
      cwd: directory,
      env: environmentOf({ directory }),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const lines: Line[] = [];
    for (const input of [child.stdout, child.stderr]) {
      createInterface({ input: input as NodeJS.ReadableStream }).on('line', (text) => {
        lines.push({ at: clock(), text });
        for (const look of this.#watchers) look();
      });
    }
    const ended = new Promise<void>((resolve) => {
      child.once('exit', () => {
        resolve();
        for (const look of this.#watchers) look();
      });
    });
    this.#tasks.set(name, { child, startedAt, lines, ended });
    return startedAt;
  }

  /** Kills a task; returns when. Resolves when its process has ended. */
  async kill(name: TaskName): Promise<number> {
    const { child, ended } = this.#tasks.get(name) as Task;
    const at = clock();
    child.kill('SIGKILL');
    await ended;
    return at;
  }

  async killAll(): Promise<void> {
    await Promise.all([...this.#tasks.keys()].map((name) => this.kill(name)));
  }

  /** Empties the directory of a task that is not running, as on another machine. */
  async wipe(name: TaskName): Promise<void> {
    await rm(this.directoryOf(name), { recursive: true, force: true });
  }

  linesOf(name: TaskName, since = 0): readonly Line[] {
    return this.#tasks.get(name)?.lines.filter(({ at }) => at >= since) ?? [];
  }

  /** The first line of a task since a time that matches. */
  waitFor(name: TaskName, pattern: RegExp, since = 0): Promise<Line> {
    return new Promise((resolve, reject) => {
      const settle = (end: () => void) => {
        clearTimeout(timer);
        this.#watchers.delete(look);
        end();
      };
      const fail = (why: string) => {
        const last = this.linesOf(name).slice(-SHOWN_LINES);
        const shown = last.map(({ text }) => `  ${text}`).join('\n');
        settle(() => reject(new Error(`${this.#side} ${name} ${why} ${pattern}:\n${shown}`)));
      };
      const look = () => {
        const found = this.linesOf(name, since).find(({ text }) => pattern.test(text));
        const { child } = this.#tasks.get(name) as Task;
        if (found) settle(() => resolve(found));
        else if (child.exitCode !== null || child.signalCode !== null) fail('ended without printing');
      };
      const timer = setTimeout(() => fail(`did not print within ${TIMEOUT_MS} ms`), TIMEOUT_MS);
      this.#watchers.add(look);
      look();
    });
  }

  /** When a task made its first step after its start or a recovery, by its own clock, and which. */
  async firstStep(name: TaskName, since: number): Promise<{ readonly at: number; readonly step: number }> {
    const { text } = await this.waitFor(name, /^first step /, since);
    const [, step, at] = /^first step (\d+) ([\d.]+)/.exec(text) as unknown as [string, string, string];
    return { at: Number(at), step: Number(step) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.killAll();
  }
}
