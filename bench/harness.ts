/**
 * Common code of the benchmarks. A benchmark compares Shoal with a baseline, usually Python TensorFlow, in one run: the
 * two alternate, so that noise of the machine affects both, and a row has the medians, their ratio and the spread of
 * the ratio over the rounds. A ratio above 1 means that Shoal is better.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { choosePorts } from '../src/app/job/launcher/ports.js';

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

export const SIDES = ['shoal', 'python'] as const;
export type Side = (typeof SIDES)[number];

export interface Row {
  readonly bench: string;
  readonly row: string;
  readonly unit: string;
  readonly shoal: number;
  readonly baseline: number;
  readonly ratio: number;
  /** The smallest and the largest ratio of single rounds. */
  readonly spread: readonly [number, number];
  /** The target of the ratio, if there is one. */
  readonly goal?: number;
  /** default: 'python'. */
  readonly baselineName?: string;
}

/** Further values, below the rows of a benchmark. */
export interface Table {
  readonly head: readonly string[];
  readonly lines: readonly (readonly string[])[];
}

export type Better = 'higher' | 'lower';

export interface Benchmark {
  readonly name: string;
  readonly about: string;
  /** The disk space that the benchmark needs; checked before the first benchmark starts. */
  readonly disk?: (flags: ReadonlyMap<string, string>) => {
    readonly directory: string;
    readonly bytes: number;
  };
  /** `flags` are the command line's `--name=value`. `show` adds a table below the rows. */
  run(
    report: (row: Row) => void,
    log: (line: string) => void,
    flags: ReadonlyMap<string, string>,
    show: (table: Table) => void,
  ): Promise<void>;
}

export const median = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
};

/** The smallest value that is at least as large as this part of all values. */
export const percentile = (values: readonly number[], part: number): number => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] as number;
};

/** Makes a row of alternating measurements: `shoal[i]` and `baseline[i]` are of the same round. */
export function compare(
  bench: string,
  row: string,
  unit: string,
  better: Better,
  shoal: readonly number[],
  baseline: readonly number[],
  goal?: number,
): Row {
  const ratioOf = (a: number, b: number): number => (better === 'higher' ? a / b : b / a);
  const ratios = shoal.map((value, i) => ratioOf(value, baseline[i] as number));
  return {
    bench,
    row,
    unit,
    shoal: median(shoal),
    baseline: median(baseline),
    ratio: median(ratios),
    spread: [Math.min(...ratios), Math.max(...ratios)],
    goal,
  };
}

/** The Python with TensorFlow that setup installed. */
export function oraclePython(): string {
  const python = process.env.SHOAL_ORACLE_PYTHON;
  if (!python || !existsSync(python)) {
    throw new Error(
      'SHOAL_ORACLE_PYTHON does not name a Python: run benchmarks with `npm run bench`, which installs Python TensorFlow',
    );
  }
  return python;
}

/** The command that runs a program of `bench/programs`, which exists for both sides. */
export function commandOf(side: Side, program: string): [command: string, file: string] {
  const [command, extension] = side === 'shoal' ? [process.execPath, 'mjs'] : [oraclePython(), 'py'];
  return [command, join(ROOT, 'bench/programs', `${program}.${extension}`)];
}

/** The environment of a program of either side, with its settings as JSON in `BENCH`. */
export const environmentOf = (settings: unknown = {}): NodeJS.ProcessEnv => ({
  ...process.env,
  UV_THREADPOOL_SIZE: process.env.UV_THREADPOOL_SIZE ?? '16',
  TF_CPP_MIN_LOG_LEVEL: '3',
  PYTHONUNBUFFERED: '1',
  BENCH: JSON.stringify(settings),
});

/** Addresses with free ports on this machine, one for each task. */
export const localAddresses = async (count: number): Promise<string[]> =>
  (await choosePorts('127.0.0.1', count)).map((port) => `127.0.0.1:${port}`);

interface ProcessOptions {
  /** Its name in error messages; default: the side. */
  readonly name?: string;
  readonly settings?: unknown;
}

/** A program that responds with one JSON line to each JSON line on its standard input. */
export class BenchProcess {
  readonly #child: ChildProcess;
  readonly #pending: { resolve: (value: unknown) => void; reject: (error: Error) => void }[] = [];
  readonly name: string;

  constructor(side: Side, program: string, { name = side as string, settings }: ProcessOptions = {}) {
    this.name = name;
    const [command, file] = commandOf(side, program);
    const env = environmentOf(settings);
    this.#child = spawn(command, [file], { cwd: ROOT, env, stdio: ['pipe', 'pipe', 'inherit'] });
    createInterface({ input: this.#child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
      this.#pending.shift()?.resolve(JSON.parse(line));
    });
    this.#child.on('exit', (code, signal) => {
      for (const { reject } of this.#pending) reject(new Error(`${name} exited: ${signal ?? code}`));
    });
  }

  request<T>(message: unknown): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#child.exitCode !== null || this.#child.signalCode !== null) {
        reject(new Error(`${this.name} has exited: ${this.#child.signalCode ?? this.#child.exitCode}`));
        return;
      }
      this.#pending.push({ resolve: resolve as (value: unknown) => void, reject });
      this.#child.stdin?.write(`${JSON.stringify(message)}\n`);
    });
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGKILL');
    await exited;
  }

  /** Ends the input and waits for the program to exit. */
  async close(): Promise<void> {
    this.#child.stdin?.end();
    if (this.#child.exitCode === null) await new Promise((resolve) => this.#child.once('exit', resolve));
  }
}
