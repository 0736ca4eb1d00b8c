/**
 * One task as a child process. It has its own process group, so that Ctrl-C reaches only the launcher and the task's
 * own children can be killed with it, and an IPC channel, whose end shows the task that the launcher died.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { ShoalError } from '../../../base/errors/errors.js';
import { splitLevel } from '../../../base/text/log.js';
import { readLines } from './lines.js';
import type { Ending } from './policy.js';
import type { Side } from './screen.js';

/** Set in the environment of tasks that a launcher started; see launcher-watch.ts. */
export const LAUNCHER_VARIABLE = 'SHOAL_LAUNCHER';

const KEPT_LINES = 20;
/** How long to wait for the last lines of a process that ended. */
const LAST_LINES_MS = 1000;

export interface ChildCommand {
  readonly command: string;
  readonly args: readonly string[];
}

export interface ChildOptions extends ChildCommand {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly onLine: (line: string, side: Side) => void;
  /** Called after each chunk; the task's output is paused until the returned promise resolves. */
  readonly congestion?: (side: Side) => Promise<void> | undefined;
}

export class TaskChild {
  readonly pid: number;
  readonly startedAt = performance.now();
  /** Resolves when the process has ended and its output has been read; never rejects. */
  readonly ended: Promise<Ending>;
  readonly #child: ChildProcess;
  readonly #kept: string[] = [];
  #linesSinceError = Number.POSITIVE_INFINITY;

  constructor(options: ChildOptions) {
    this.#child = spawn(options.command, options.args, {
      env: { ...options.env, [LAUNCHER_VARIABLE]: String(process.pid) },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      detached: true,
    });
    const { pid } = this.#child;
    if (pid === undefined) {
      // Without a listener the event that follows would be an uncaught error.
      this.#child.once('error', () => {});
      throw new ShoalError('SHOAL_UNSUPPORTED', `cannot start ${options.command}`, {
        hint: 'check the process limit of this user (ulimit -u)',
      });
    }
    this.pid = pid;
    const read = (side: Side) => {
      const stream = this.#child[side]!;
      stream.on('data', () => {
        const clear = options.congestion?.(side);
        if (clear === undefined) return;
        stream.pause();
        void clear.then(() => stream.resume());
      });
      return readLines(stream, (line) => {
        this.#kept.push(line);
        if (this.#kept.length > KEPT_LINES) this.#kept.shift();
        const isError = side === 'stderr' && splitLevel(line).level === 'error';
        this.#linesSinceError = isError ? 0 : this.#linesSinceError + 1;
        options.onLine(line, side);
      });
    };
    this.ended = this.#end([read('stdout'), read('stderr')]);
  }

  /** The last lines that the task wrote. */
  get lastLines(): readonly string[] {
    return this.#kept;
  }

  /** Whether an error is among the last lines that the task wrote: an older one is not why it ended. */
  get hasReportedError(): boolean {
    return this.#linesSinceError < KEPT_LINES;
  }

  get alive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  get uptimeMs(): number {
    return performance.now() - this.startedAt;
  }

  /** Requests a graceful stop. Not SIGTERM: the task would expect to be started again. */
  stop(): void {
    if (this.alive) this.#child.kill('SIGINT');
  }

  /** Kills the task and its children. */
  kill(): void {
    try {
      process.kill(-this.pid, 'SIGKILL');
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // macOS returns EPERM for a group that contains only a zombie.
      if (code !== 'ESRCH' && code !== 'EPERM') throw error;
    }
  }

  async #end(outputs: readonly Promise<void>[]): Promise<Ending> {
    const ending = await new Promise<Ending>((done) => {
      this.#child.once('exit', (code, signal) => done({ code, signal }));
      this.#child.once('error', () => done({ code: 1, signal: null }));
    });
    // Children that outlive the task would keep its output open.
    this.kill();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((done) => {
      timer = setTimeout(done, LAST_LINES_MS);
    });
    await Promise.race([Promise.all(outputs), late]);
    clearTimeout(timer);
    this.#child.stdout?.destroy();
    this.#child.stderr?.destroy();
    return ending;
  }
}
