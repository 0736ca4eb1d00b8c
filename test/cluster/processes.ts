/** Runs the tasks of a job as processes on this machine. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { choosePorts } from '../../src/app/job/launcher/ports.js';
import { programFile } from '../programs.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
const PROGRAMS = 'test/cluster/programs';

export interface TaskProcess {
  readonly child: ChildProcess;
  readonly output: () => string;
  readonly exit: Promise<number | null>;
  /** Resolves when the output matches. */
  waitForOutput(pattern: RegExp, timeoutMs?: number): Promise<void>;
}

export class TaskProcesses implements AsyncDisposable {
  readonly #program: string;
  readonly #flags: readonly string[];
  readonly #env: NodeJS.ProcessEnv;
  /** The default parent of the task directories. */
  readonly #home: string;
  readonly #all: TaskProcess[] = [];

  private constructor(program: string, flags: readonly string[], env: NodeJS.ProcessEnv) {
    this.#program = program;
    this.#flags = flags;
    this.#home = mkdtempSync(join(tmpdir(), 'shoal-tasks-'));
    this.#env = { TASKS_ROOT: this.#home, ...env };
  }

  static async create(
    program: string,
    ps: number,
    workers: number,
    env: NodeJS.ProcessEnv = {},
  ): Promise<TaskProcesses> {
    const ports = await choosePorts('127.0.0.1', ps + workers);
    const hosts = ports.map((port) => `127.0.0.1:${port}`);
    const flags = [`--ps_hosts=${hosts.slice(0, ps)}`, `--worker_hosts=${hosts.slice(ps)}`];
    return new TaskProcesses(program, flags, env);
  }

  /** Starts a task of the job, or of the given program; `tree`: the checkout that it runs, default this one. */
  start(
    job: 'ps' | 'worker' | 'evaluator',
    index: number,
    more: readonly string[] = [],
    program?: string,
    env: NodeJS.ProcessEnv = {},
    tree = ROOT,
  ): TaskProcess {
    const file = (name: string) =>
      tree === ROOT ? programFile(`${PROGRAMS}/${name}`) : join(tree, PROGRAMS, name);
    const entry = program ? [file(program)] : [file('task.ts'), file(this.#program)];
    const args = tree === ROOT ? entry : ['--import', 'tsx', ...entry];
    const child = spawn(
      process.execPath,
      [...args, `--job_name=${job}`, `--task_index=${index}`, ...this.#flags, ...more],
      {
        cwd: tree,
        env: {
          ...process.env,
          UV_THREADPOOL_SIZE: '16',
          SHOAL_HEARTBEAT_MS: '200',
          SHOAL_DEAD_AFTER_MS: '4000',
          ...this.#env,
          ...env,
        },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    let output = '';
    const watchers = new Set<() => void>();
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk: Buffer) => {
        output += String(chunk);
        for (const watch of watchers) watch();
      });
    }
    const exit = new Promise<number | null>((resolve) => child.once('close', resolve));
    const waitForOutput = (pattern: RegExp, timeoutMs = 240_000) =>
      new Promise<void>((resolve, reject) => {
        const end = (settle: () => void) => {
          clearTimeout(timer);
          watchers.delete(look);
          settle();
        };
        const look = () => {
          if (pattern.test(output)) end(resolve);
        };
        const fail = (reason: string) =>
          end(() => reject(new Error(`${job} ${index} ${reason} ${pattern}: ${output.slice(-2000)}`)));
        const timer = setTimeout(fail, timeoutMs, `did not print within ${timeoutMs} ms:`);
        watchers.add(look);
        void exit.then(() => fail('exited without printing'));
        look();
      });
    const task: TaskProcess = { child, output: () => output, exit, waitForOutput };
    this.#all.push(task);
    return task;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { child } of this.#all) if (child.exitCode === null) child.kill('SIGKILL');
    await Promise.all(this.#all.map(({ exit }) => exit));
    rmSync(this.#home, { recursive: true, force: true });
  }
}
