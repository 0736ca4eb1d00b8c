/** A cluster of real processes on loopback, for tests. It kills every process that it starts. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { programFile } from '../../../../test/programs.js';
import { choosePorts } from '../../../app/job/launcher/ports.js';

export interface Line {
  readonly at: number;
  readonly event?: string;
  readonly task?: string;
  readonly why?: string;
  readonly epoch?: number;
  readonly notice?: string;
  readonly progress?: string;
  readonly up?: string;
  readonly address?: string;
  readonly incarnation?: number;
  readonly id?: number;
  readonly result?: unknown;
  readonly error?: string;
  readonly code?: string;
}

export const HEARTBEAT_MS = 200;
export const DEAD_AFTER_MS = 4000;
/** A generous timeout for starting processes on a busy machine. */
export const PATIENCE_MS = 120_000;

const SCRIPT = 'src/distributed/cluster/testing/task-process.ts';

export class TaskProcess {
  readonly lines: Line[] = [];
  readonly exited: Promise<number | null>;
  stderr = '';
  readonly #child: ChildProcess;
  readonly #watchers = new Set<() => void>();
  #commands = 0;

  constructor(env: Readonly<Record<string, string>>) {
    this.#child = spawn(process.execPath, [programFile(SCRIPT)], {
      env: { PATH: process.env.PATH ?? '', ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#child.stderr!.on('data', (chunk) => {
      this.stderr += chunk;
    });
    this.#child.stdin!.on('error', () => {});
    createInterface({ input: this.#child.stdout! }).on('line', (text) => {
      this.lines.push(JSON.parse(text) as Line);
      for (const watch of this.#watchers) watch();
    });
    this.exited = new Promise((done) => this.#child.once('exit', (code) => done(code)));
  }

  get pid(): number {
    return this.#child.pid!;
  }

  get running(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  signal(name: NodeJS.Signals): number {
    this.#child.kill(name);
    return Date.now();
  }

  /** The first matching line since `since`. */
  line(what: string, fits: (line: Line) => boolean, since = 0, timeoutMs = PATIENCE_MS): Promise<Line> {
    return new Promise((done, fail) => {
      const look = () => {
        const found = this.lines.find((line) => line.at >= since && fits(line));
        if (found === undefined) return;
        end();
        done(found);
      };
      const end = () => {
        clearTimeout(timer);
        this.#watchers.delete(look);
      };
      const timer = setTimeout(() => {
        end();
        const heard = this.lines.slice(-8).map((line) => JSON.stringify(line).slice(0, 200));
        fail(new Error(`no ${what} within ${timeoutMs} ms; last:\n${heard.join('\n')}\n${this.stderr}`));
      }, timeoutMs);
      this.#watchers.add(look);
      look();
    });
  }

  event(type: string, task: string, since = 0): Promise<Line> {
    return this.line(`${type} ${task}`, (line) => line.event === type && line.task === task, since);
  }

  async ask(command: object): Promise<Line> {
    const id = ++this.#commands;
    this.#child.stdin!.write(`${JSON.stringify({ id, ...command })}\n`);
    return this.line(`answer to ${JSON.stringify(command)}`, (line) => line.id === id);
  }

  /** Kills the process, stopped or not. */
  async end(): Promise<void> {
    if (this.running) this.#child.kill('SIGKILL');
    await this.exited;
  }
}

export class ProcessCluster {
  readonly processes: TaskProcess[] = [];

  constructor(
    readonly dict: Readonly<Record<string, readonly string[]>>,
    readonly env: Readonly<Record<string, string>> = {},
  ) {}

  static async make(jobs: Readonly<Record<string, number>>, env: Readonly<Record<string, string>> = {}) {
    const ports = await choosePorts(
      '127.0.0.1',
      Object.values(jobs).reduce((a, b) => a + b),
    );
    const dict = Object.fromEntries(
      Object.entries(jobs).map(([job, count]) => [
        job,
        ports.splice(0, count).map((port) => `127.0.0.1:${port}`),
      ]),
    );
    return new ProcessCluster(dict, env);
  }

  start(job: string, index: number, env: Readonly<Record<string, string>> = {}): TaskProcess {
    const made = new TaskProcess({
      TF_CONFIG: JSON.stringify({ cluster: this.dict, task: { type: job, index } }),
      SHOAL_HEARTBEAT_MS: String(HEARTBEAT_MS),
      SHOAL_DEAD_AFTER_MS: String(DEAD_AFTER_MS),
      ...this.env,
      ...env,
    });
    this.processes.push(made);
    return made;
  }

  get tasks(): readonly string[] {
    return Object.entries(this.dict).flatMap(([job, all]) =>
      all.map((_, index) => `/job:${job}/task:${index}`),
    );
  }

  async endAll(): Promise<void> {
    await Promise.all(this.processes.map((process) => process.end()));
  }
}
