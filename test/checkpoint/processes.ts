/**
 * Tasks as processes on this machine, each with its own directory, that execute commands given as lines of JSON. Every
 * process that is started here is also ended here, by its process id.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { choosePorts } from '../../src/app/job/launcher/ports.js';
import { programFile } from '../programs.js';

/** Only detects hangs: a busy machine may take very long to start a process. */
const TIMEOUT_MS = 420_000;

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

export class Failure extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

export class Task {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<
    number,
    { resolve: (value: unknown) => void; reject: (error: Error) => void }
  >();
  readonly exited: Promise<NodeJS.Signals | number | null>;
  readonly log: string[] = [];
  #asked = 0;

  constructor(
    readonly name: string,
    program: string,
    env: NodeJS.ProcessEnv,
    directory: string,
  ) {
    this.#child = spawn(process.execPath, [program], {
      cwd: ROOT,
      env: { ...env, TASK_DIRECTORY: directory },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#child.stdin!.on('error', () => {});
    createInterface({ input: this.#child.stdout! }).on('line', (line) => this.#receive(line));
    createInterface({ input: this.#child.stderr! }).on('line', (line) => this.log.push(line));
    this.exited = new Promise((resolve) => {
      this.#child.once('exit', (code, signal) => {
        for (const { reject } of this.#waiting.values())
          reject(new Failure('EXIT', this.#describe('has exited')));
        this.#waiting.clear();
        resolve(signal ?? code);
      });
    });
  }

  #describe(what: string): string {
    const { exitCode, signalCode } = this.#child;
    const how = this.isRunning ? '' : ` (${signalCode ?? `exit code ${exitCode}`})`;
    return `${this.name} ${what}${how}\n${this.log.slice(-15).join('\n')}`;
  }

  #receive(line: string): void {
    if (!line.startsWith('{"id":')) {
      this.log.push(line);
      return;
    }
    const answer = JSON.parse(line) as { id: number; result?: unknown; error?: string; code?: string };
    const waiting = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    if (answer.error === undefined) waiting?.resolve(answer.result);
    else waiting?.reject(new Failure(answer.code ?? '', answer.error));
  }

  /** Resolves with the result; rejects when the command fails or the task exits. */
  ask<T = unknown>(command: string, options: object = {}): Promise<T> {
    const id = ++this.#asked;
    return new Promise<unknown>((resolve, reject) => {
      if (!this.isRunning) {
        reject(new Failure('EXIT', this.#describe('has exited')));
        return;
      }
      const timer = setTimeout(
        () => reject(new Failure('LATE', this.#describe(`did not answer the command '${command}'`))),
        TIMEOUT_MS,
      );
      const settle =
        <V>(act: (value: V) => void) =>
        (value: V) => {
          clearTimeout(timer);
          act(value);
        };
      this.#waiting.set(id, { resolve: settle(resolve), reject: settle(reject) });
      this.#child.stdin!.write(`${JSON.stringify({ id, do: command, ...options })}\n`);
    }) as Promise<T>;
  }

  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Resolves when the process is stopped by SIGSTOP. */
  async stopped(): Promise<void> {
    const end = Date.now() + TIMEOUT_MS;
    for (;;) {
      if (!this.isRunning) throw new Failure('EXIT', this.#describe('has exited'));
      const { stdout } = await promisify(execFile)('ps', ['-o', 'state=', '-p', String(this.#child.pid)]);
      if (stdout.trim().startsWith('T')) return;
      if (Date.now() > end) throw new Failure('LATE', this.#describe('was not stopped'));
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  pause(): void {
    this.#child.kill('SIGSTOP');
  }

  continue(): void {
    this.#child.kill('SIGCONT');
  }

  /** Sends SIGKILL and waits for the exit. */
  async kill(): Promise<void> {
    if (this.isRunning) this.#child.kill('SIGKILL');
    await this.exited;
  }
}

export class Cluster implements AsyncDisposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'shoal-crash-'));
  readonly #program: string;
  readonly #dict: Readonly<Record<string, readonly string[]>>;
  readonly #tasks = new Map<string, Task>();
  readonly #started: Task[] = [];

  private constructor(program: string, dict: Readonly<Record<string, readonly string[]>>) {
    this.#program = program;
    this.#dict = dict;
  }

  /** Starts all tasks and waits until each has discovered the others. */
  static async start(
    program: string,
    jobs: Readonly<Record<string, number>>,
    env: (task: string) => NodeJS.ProcessEnv = () => ({}),
  ): Promise<Cluster> {
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
    const cluster = new Cluster(programFile(program), dict);
    for (const name of cluster.names) cluster.launch(name, env(name));
    await Promise.all(cluster.names.map((name) => cluster.at(name).ask('wait')));
    return cluster;
  }

  get names(): readonly string[] {
    return Object.entries(this.#dict).flatMap(([job, all]) => all.map((_, index) => `${job}/${index}`));
  }

  at(name: string): Task {
    return this.#tasks.get(name) as Task;
  }

  directory(name: string): string {
    return join(this.folder, name.replace('/', '-'));
  }

  /** Starts a process for a task in its existing directory, or in that of another name. */
  launch(name: string, env: NodeJS.ProcessEnv = {}, directory = name): Task {
    const [job, index] = name.split('/');
    mkdirSync(this.directory(directory), { recursive: true });
    const task = new Task(
      name,
      this.#program,
      {
        ...process.env,
        TF_CONFIG: JSON.stringify({ cluster: this.#dict, task: { type: job, index: Number(index) } }),
        UV_THREADPOOL_SIZE: '16',
        SHOAL_HEARTBEAT_MS: '200',
        SHOAL_DEAD_AFTER_MS: '20000',
        ...env,
      },
      this.directory(directory),
    );
    this.#tasks.set(name, task);
    this.#started.push(task);
    return task;
  }

  /** Starts a process on an empty disk for a task that has exited. */
  async replace(name: string): Promise<Task> {
    await this.empty(name);
    const task = this.launch(name);
    await task.ask('wait');
    return task;
  }

  /** Waits for the exit of a task and removes its directory. */
  async empty(name: string): Promise<void> {
    await this.at(name).exited;
    rmSync(this.directory(name), { recursive: true, force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#started.map((task) => task.kill()));
    rmSync(this.folder, { recursive: true, force: true });
  }
}
