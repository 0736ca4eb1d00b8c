/**
 * A holder is a process that keeps namespaces alive: it sets them up in two steps, told by lines on its
 * stdin ("up", then "ready"), and ends when its stdin ends, be it by the owner's will or by its death.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { withDeadline } from '../../src/async/deadline.js';
import { ShoalError } from '../../src/errors/errors.js';
import { searchPath } from './namespace-support.js';

const STEP_MS = 20_000;

export class Holder {
  readonly #what: string;
  readonly #child: ChildProcess;
  readonly #failed: Promise<never>;
  #said = '';
  #stderr = '';
  #wake: () => void = () => {};

  /** The mark lets the guard find a holder that did not end by itself. */
  constructor(what: string, argv: readonly string[], mark: string) {
    this.#what = what;
    const [command = '', ...args] = argv;
    this.#child = spawn(command, args, {
      detached: true,
      cwd: '/',
      env: { ...process.env, PATH: searchPath(), SHOAL_LAB_MARK: mark },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#said += text;
      this.#wake();
    });
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
    });
    // A write to a holder that has ended shows as its end, below.
    this.#child.stdin?.on('error', () => {});
    this.#failed = new Promise<never>((_, reject) => {
      this.#child.once('error', (cause) => {
        reject(new ShoalError('SHOAL_INTERNAL', `${what} could not be started`, { cause }));
      });
      this.#child.once('close', (code, signal) => {
        reject(new ShoalError('SHOAL_INTERNAL', `${what} ended (${signal ?? code}): ${this.#stderr.trim()}`));
      });
    });
    this.#failed.catch(() => {});
  }

  /** Fails once the holder has ended: its pid may by then be another process's, in other namespaces. */
  get pid(): number {
    const { pid, exitCode, signalCode } = this.#child;
    if (pid !== undefined && exitCode === null && signalCode === null) return pid;
    throw new ShoalError('SHOAL_DISPOSED', `${this.#what} is gone`);
  }

  tell(line: string): void {
    this.#child.stdin?.write(`${line}\n`);
  }

  /** Waits until the holder has said a line. */
  async says(line: string): Promise<void> {
    const heard = new Promise<void>((resolve) => {
      this.#wake = () => {
        if (this.#said.split('\n').includes(line)) resolve();
      };
      this.#wake();
    });
    const either = Promise.race([heard, this.#failed]);
    await withDeadline(either, `${this.#what}, to say "${line}",`, { timeoutMs: STEP_MS });
  }

  /** A forgotten lab must not keep its owner's process alive. */
  unref(): void {
    this.#child.unref();
    for (const stream of [this.#child.stdin, this.#child.stdout, this.#child.stderr])
      (stream as Socket).unref();
  }

  /** Lets go; the holder ends by itself. */
  release(): void {
    this.#child.stdin?.end();
  }

  async ended(): Promise<void> {
    this.#child.ref();
    await withDeadline(
      this.#failed.catch(() => {}),
      `${this.#what}, to end,`,
      { timeoutMs: STEP_MS },
    );
  }
}
