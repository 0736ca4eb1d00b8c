/** A deterministic synchronous run that loses tasks ends with the same bits as one that does not. */
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { sleep } from '../../src/base/async/deadline.js';
import { EXIT } from '../../src/base/errors/exit-codes.js';
import { DirectoryReader } from '../../src/tensorflow/formats/range-reader.js';
import { BundleReader } from '../../src/tensorflow/formats/tensor-bundle/bundle-reader.js';
import { runCommand } from '../cli/run-command.js';
import { type TaskProcess, TaskProcesses } from './processes.js';

const TIMEOUT_MS = 120_000;
/** Each chief is killed while a ps is frozen: some of its steps have been applied on the other ps only. */
const CHIEF_KILLS = 3;

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-deterministic-'));
});
afterEach(() => rm(root, { recursive: true, force: true }));

const TASKS = ['ps 0', 'ps 1', 'worker 0', 'worker 1'] as const;
type TaskName = (typeof TASKS)[number];

/** The last checkpoint: its step, and the bytes of each tensor. */
interface Saved {
  readonly step: number;
  readonly tensors: Readonly<Record<string, string>>;
}

class Run {
  readonly #root: string;
  readonly #tasks: TaskProcesses;
  readonly #running = new Map<TaskName, TaskProcess>();

  constructor(directory: string, tasks: TaskProcesses) {
    this.#root = directory;
    this.#tasks = tasks;
  }

  start(name: TaskName): void {
    const [job, index] = name.split(' ') as ['ps' | 'worker', string];
    this.#running.set(name, this.#tasks.start(job, Number(index)));
  }

  task(name: TaskName): TaskProcess {
    return this.#running.get(name) as TaskProcess;
  }

  /** Kills a task, and starts it again with an empty directory. */
  async replace(name: TaskName): Promise<void> {
    const { child, exit } = this.task(name);
    child.kill('SIGKILL');
    await exit;
    await rm(join(this.#root, name.replace(' ', '-')), { recursive: true, force: true });
    this.start(name);
  }

  /** Both workers have made steps since, and the chief has saved. */
  async trains(): Promise<void> {
    const marks = new Map(TASKS.map((name) => [name, this.task(name).output().length]));
    const since = (name: TaskName) => this.task(name).output().slice(marks.get(name));
    const isDone = () =>
      [/step \d+ of/, /saved model\.ckpt-\d+/].every((pattern) => pattern.test(since('worker 0'))) &&
      /step \d+ of/.test(since('worker 1'));
    const end = performance.now() + TIMEOUT_MS;
    while (!isDone()) {
      if (performance.now() > end) throw new Error(`training does not continue:\n${this.#outputs()}`);
      await sleep(20);
    }
  }

  #outputs(): string {
    return TASKS.map((name) => `${name}: ${this.task(name).output().slice(-2000)}`).join('\n---\n');
  }

  /** Interrupts the workers. */
  stop(): void {
    for (const name of ['worker 0', 'worker 1'] as const) this.task(name).child.kill('SIGINT');
  }

  /** Waits until all tasks have ended, the workers with this code; returns the last checkpoint. */
  async end(code: number): Promise<Saved> {
    const exits = await Promise.all(TASKS.map((name) => this.task(name).exit));
    // The ps end with the code of the workers.
    expect(exits, this.#outputs()).toEqual([code, code, code, code]);
    const dirs = (await readdir(this.#root)).map((task) => join(this.#root, task, 'blobs'));
    const copy = join(this.#root, 'copy');
    const where = ['--dirs', dirs.filter((dir) => existsSync(dir)).join(), '--job', 'deterministic'];
    const { stdout, stderr } = await runCommand('checkpoint', 'pull', 'latest', copy, ...where, '--json');
    expect(stdout, stderr).not.toBe('');
    const { path } = JSON.parse(stdout) as { path: string };
    await using files = new DirectoryReader(dirname(path));
    const bundle = await BundleReader.open(files, basename(path));
    const tensors: Record<string, string> = {};
    for (const { name } of bundle.index.tensors.values())
      tensors[name] = Buffer.from((await bundle.read(name)) as Uint8Array).toString('hex');
    return { step: Number(/-(\d+)$/.exec(path)?.[1]), tensors };
  }
}

interface RunOptions {
  readonly lastStep: number;
  /** Disturbs the run, and stops it; default: it runs until its last step. */
  readonly disturb?: (run: Run) => Promise<void>;
}

async function run(name: string, { lastStep, disturb }: RunOptions): Promise<Saved> {
  const directory = join(root, name);
  await using tasks = await TaskProcesses.create('deterministic-job.ts', 2, 2, {
    TASKS_ROOT: directory,
    DETERMINISTIC_STEPS: String(lastStep),
  });
  const started = new Run(directory, tasks);
  for (const task of TASKS) started.start(task);
  await disturb?.(started);
  return await started.end(disturb ? EXIT.interrupted : EXIT.done);
}

it('ends with the bits of an undisturbed run after a worker, a ps and the chief were killed', {
  timeout: 900_000,
}, async () => {
  const disturb = async (cluster: Run) => {
    await cluster.trains();
    for (const victim of ['worker 1', 'ps 1'] as const) {
      await cluster.replace(victim);
      await cluster.trains();
    }
    for (let kill = 0; kill < CHIEF_KILLS; kill++) {
      const { child: frozen } = cluster.task('ps 1');
      frozen.kill('SIGSTOP');
      await sleep(300);
      const replaced = cluster.replace('worker 0');
      await sleep(100);
      frozen.kill('SIGCONT');
      await replaced;
      await cluster.trains();
    }
    cluster.stop();
  };
  const disturbed = await run('disturbed', { lastStep: 1e9, disturb });
  expect(disturbed.step).toBeGreaterThan(0);
  expect(Object.keys(disturbed.tensors).sort()).toEqual(['W', 'W/Adagrad', 'b', 'b/Adagrad', 'global_step']);
  expect(await run('undisturbed', { lastStep: disturbed.step })).toEqual(disturbed);
});
