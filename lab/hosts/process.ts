/** A process on a lab host: its pid, signals, exit and output. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createWriteStream, mkdirSync, type WriteStream } from 'node:fs';
import { dirname } from 'node:path';
import { type WaitOptions, withDeadline } from '../../src/base/async/deadline.js';
import { ShoalError } from '../../src/base/errors/errors.js';

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface StartOptions {
  /** Added to the owner's environment (proxy settings left out); `undefined` removes a variable. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** A path on the host, relative to its disk. Default: the root of the disk. */
  readonly cwd?: string;
  /** A file of the owner that receives all output of the process. */
  readonly logFile?: string;
  /** Called with every complete line that the process prints. */
  readonly onLine?: (line: string, stream: 'stdout' | 'stderr') => void;
  /** Given to the process on stdin, which then ends. */
  readonly input?: string | Uint8Array;
}

/** What is spawned: the command with everything around it that puts it on the host. */
export interface Launch {
  readonly host: string;
  readonly title: string;
  readonly argv: readonly [string, ...string[]];
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
}

/** The tail of the output that is kept in memory. */
const OUTPUT_CHARS = 4 << 20;
/** The wait for the end of the output, which a descendant may keep open after the process has ended. */
const DRAIN_MS = 500;

export class LabProcess implements AsyncDisposable {
  readonly pid: number;
  /** Resolves when the process has ended, whatever the reason. */
  readonly exited: Promise<Exit>;
  readonly #title: string;
  readonly #child: ChildProcess;
  readonly #chunks: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] };
  readonly #watchers = new Set<() => void>();
  #output = '';
  #exit: Exit | undefined;
  #isOver = false;

  private constructor(launch: Launch, options: StartOptions, keepBytes: boolean) {
    this.#title = `${launch.title} on ${launch.host}`;
    const [command, ...args] = launch.argv;
    // In its own session: the owner decides whether to forward Ctrl-C.
    this.#child = spawn(command, args, {
      env: launch.env,
      cwd: launch.cwd,
      detached: true,
      stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    });
    const log = options.logFile === undefined ? undefined : openLog(options.logFile);
    this.exited = this.#watchEnd(log);
    this.exited.catch(() => {});
    this.pid = this.#child.pid ?? -1;
    this.#listen('stdout', options, log, keepBytes);
    this.#listen('stderr', options, log, keepBytes);
    if (options.input !== undefined) {
      // A process may end without reading all its input.
      this.#child.stdin?.on('error', () => {});
      this.#child.stdin?.end(options.input);
    }
  }

  static start(launch: Launch, options: StartOptions): LabProcess {
    return new LabProcess(launch, options, false);
  }

  /** Starts a process whose complete output is kept as bytes. */
  static startForBytes(launch: Launch, options: StartOptions): LabProcess {
    return new LabProcess(launch, options, true);
  }

  get running(): boolean {
    return this.#exit === undefined && this.pid > 0;
  }

  /** Whether it has ended and all its output has arrived. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** What the process printed, both streams in the order of arrival. */
  get output(): string {
    return this.#output;
  }

  bytes(stream: 'stdout' | 'stderr'): Buffer {
    return Buffer.concat(this.#chunks[stream]);
  }

  /** Sends a signal to the command itself. False when it has ended. */
  kill(signal: NodeJS.Signals = 'SIGKILL'): boolean {
    return this.running && this.#child.kill(signal);
  }

  /** Waits for the end with a deadline. */
  async ended(options: WaitOptions = { timeoutMs: 30_000 }): Promise<Exit> {
    return await withDeadline(this.exited, this.#title, options);
  }

  /** Waits until the output matches; rejects if the process ends before. */
  async waitFor(pattern: RegExp, options: WaitOptions = { timeoutMs: 30_000 }): Promise<RegExpMatchArray> {
    let watcher: (() => void) | undefined;
    const found = new Promise<RegExpMatchArray>((resolve, reject) => {
      watcher = () => {
        const match = this.#output.match(pattern);
        if (match !== null) resolve(match);
      };
      this.#watchers.add(watcher);
      watcher();
      this.exited.then(({ code, signal }) => {
        watcher?.();
        reject(
          new ShoalError(
            'SHOAL_NOT_FOUND',
            `${this.#title} ended (${signal ?? code}) without printing ${pattern}`,
            {
              hint: `its last output: ${this.#output.slice(-2000)}`,
            },
          ),
        );
      }, reject);
    });
    try {
      return await withDeadline(found, `${this.#title}, to print ${pattern},`, options);
    } finally {
      if (watcher !== undefined) this.#watchers.delete(watcher);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.kill('SIGKILL');
    await this.exited;
  }

  #listen(
    name: 'stdout' | 'stderr',
    options: StartOptions,
    log: WriteStream | undefined,
    keepBytes: boolean,
  ): void {
    const stream = this.#child[name];
    const decoder = new TextDecoder();
    let rest = '';
    stream?.on('data', (chunk: Buffer) => {
      log?.write(chunk);
      if (keepBytes) {
        this.#chunks[name].push(chunk);
        return;
      }
      const text = decoder.decode(chunk, { stream: true });
      this.#output += text;
      if (this.#output.length > 2 * OUTPUT_CHARS) this.#output = this.#output.slice(-OUTPUT_CHARS);
      if (options.onLine !== undefined) {
        const lines = (rest + text).split('\n');
        rest = lines.pop() ?? '';
        for (const line of lines) options.onLine(line, name);
      }
      for (const watcher of this.#watchers) watcher();
    });
    stream?.on('end', () => {
      if (rest !== '') options.onLine?.(rest, name);
    });
  }

  #watchEnd(log: WriteStream | undefined): Promise<Exit> {
    return new Promise<Exit>((resolve, reject) => {
      let drain: NodeJS.Timeout | undefined;
      const finish = () => {
        clearTimeout(drain);
        log?.end();
        if (this.#exit === undefined) return;
        this.#isOver = true;
        resolve(this.#exit);
      };
      this.#child.once('error', (cause) => {
        log?.end();
        reject(new ShoalError('SHOAL_INTERNAL', `${this.#title} could not be started`, { cause }));
      });
      this.#child.once('exit', (code, signal) => {
        this.#exit = { code, signal };
        drain = setTimeout(finish, DRAIN_MS);
      });
      this.#child.once('close', finish);
    });
  }
}

function openLog(path: string): WriteStream {
  mkdirSync(dirname(path), { recursive: true });
  return createWriteStream(path, { flags: 'a' });
}
