/**
 * A holder is a process that keeps namespaces alive. It sets them up in two steps, prints "up" and "ready" after them,
 * and ends when its stdin ends, which also happens when the owner dies.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { withDeadline } from '../../src/base/async/deadline.js';
import { ShoalError } from '../../src/base/errors/errors.js';
import { searchPath } from './namespace-support.js';

const STEP_MS = 20_000;

export class Holder {
  readonly #what: string;
  readonly #child: ChildProcess;
  readonly #failed: Promise<never>;
  #output = '';
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
      this.#output += text;
      this.#wake();
    });
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
    });
    // A failed write means that the holder has ended, which is handled below.
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

  /** Throws once the holder has ended: its pid may have been reused by a process in other namespaces. */
  get pid(): number {
    const { pid, exitCode, signalCode } = this.#child;
    if (pid !== undefined && exitCode === null && signalCode === null) return pid;
    throw new ShoalError('SHOAL_DISPOSED', `${this.#what} is gone`);
  }

  send(line: string): void {
    this.#child.stdin?.write(`${line}\n`);
  }

  /** Waits until the holder has printed a line. */
  async waitForLine(line: string): Promise<void> {
    const heard = new Promise<void>((resolve) => {
      this.#wake = () => {
        if (this.#output.split('\n').includes(line)) resolve();
      };
      this.#wake();
    });
    const either = Promise.race([heard, this.#failed]);
    await withDeadline(either, `${this.#what}, to print "${line}",`, { timeoutMs: STEP_MS });
  }

  /** A forgotten lab must not keep its owner's process alive. */
  unref(): void {
    this.#child.unref();
    for (const stream of [this.#child.stdin, this.#child.stdout, this.#child.stderr])
      (stream as Socket).unref();
  }

  /** Closes stdin, which ends the holder. */
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
