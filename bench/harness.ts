/**
 * Common code of the benchmarks. A benchmark compares Shoal with a peer (Python TensorFlow) in one run: the two
 * alternate, so that noise of the machine affects both, and a row has the medians, their ratio and the spread
 * of the ratio over the rounds. A ratio above 1 means that Shoal is better.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

export interface Row {
  readonly bench: string;
  readonly row: string;
  readonly unit: string;
  readonly shoal: number;
  readonly peer: number;
  readonly ratio: number;
  /** The smallest and the largest ratio of single rounds. */
  readonly spread: readonly [number, number];
  /** The target of the ratio, if there is one. */
  readonly goal?: number | undefined;
  /** The name of the peer; default: Python TensorFlow. */
  readonly against?: string | undefined;
}

export type Better = 'higher' | 'lower';

export interface Benchmark {
  readonly name: string;
  readonly about: string;
  /** The disk that the benchmark writes to; checked before the first one starts. */
  readonly disk?: (flags: ReadonlyMap<string, string>) => {
    readonly directory: string;
    readonly bytes: number;
  };
  /** Flags are those of the command line, `--name=value`. */
  run(
    report: (row: Row) => void,
    log: (line: string) => void,
    flags: ReadonlyMap<string, string>,
  ): Promise<void>;
}

export const median = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2
    ? (sorted[middle] as number)
    : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
};

/** Makes a row of measurements taken in turns: `shoal[i]` and `peer[i]` are of one round. */
export function compare(
  bench: string,
  row: string,
  unit: string,
  better: Better,
  shoal: readonly number[],
  peer: readonly number[],
  goal?: number,
): Row {
  const ratioOf = (a: number, b: number): number => (better === 'higher' ? a / b : b / a);
  const ratios = shoal.map((value, i) => ratioOf(value, peer[i] as number));
  return {
    bench,
    row,
    unit,
    shoal: median(shoal),
    peer: median(peer),
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
      'SHOAL_ORACLE_PYTHON is not set: run benchmarks with `npm run bench`, which installs Python TensorFlow',
    );
  }
  return python;
}

/** A process that answers one JSON line for each JSON line that it is sent. */
export class Peer {
  readonly #child: ChildProcess;
  readonly #answers: { resolve: (value: unknown) => void; reject: (error: Error) => void }[] = [];
  readonly name: string;

  private constructor(name: string, command: string, args: readonly string[], env: NodeJS.ProcessEnv) {
    this.name = name;
    this.#child = spawn(command, args, { cwd: ROOT, env, stdio: ['pipe', 'pipe', 'inherit'] });
    createInterface({ input: this.#child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
      this.#answers.shift()?.resolve(JSON.parse(line));
    });
    this.#child.on('exit', (code, signal) => {
      for (const { reject } of this.#answers) reject(new Error(`${name} ended: ${signal ?? code}`));
    });
  }

  static start(name: string, command: string, args: readonly string[], env: NodeJS.ProcessEnv): Peer {
    return new Peer(name, command, args, env);
  }

  static shoal(script: string): Peer {
    return new Peer('shoal', process.execPath, [join(ROOT, 'bench/peers', script)], {
      ...process.env,
      UV_THREADPOOL_SIZE: process.env.UV_THREADPOOL_SIZE ?? '16',
    });
  }

  static python(script: string): Peer {
    return new Peer('python', oraclePython(), [join(ROOT, 'bench/peers', script)], {
      ...process.env,
      TF_CPP_MIN_LOG_LEVEL: '3',
      PYTHONUNBUFFERED: '1',
    });
  }

  ask<T>(question: unknown): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#child.exitCode !== null || this.#child.signalCode !== null) {
        reject(new Error(`${this.name} has ended: ${this.#child.signalCode ?? this.#child.exitCode}`));
        return;
      }
      this.#answers.push({ resolve: resolve as (value: unknown) => void, reject });
      this.#child.stdin?.write(`${JSON.stringify(question)}\n`);
    });
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGKILL');
    await gone;
  }

  async close(): Promise<void> {
    this.#child.stdin?.end();
    if (this.#child.exitCode === null) await new Promise((resolve) => this.#child.once('exit', resolve));
  }
}
