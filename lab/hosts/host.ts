/**
 * One host of a lab, made of namespaces (namespaces.ts) or of a directory and a loopback address (directories.ts).
 */
import { posix } from 'node:path';
import { type WaitOptions, withDeadline } from '../../src/base/async/deadline.js';
import { invalid, ShoalError } from '../../src/base/errors/errors.js';
import { processStat, processTree, until } from './proc.js';
import { type Exit, LabProcess, type Launch, type StartOptions } from './process.js';

export interface HostSpec {
  readonly name: string;
  /** The size of the disk, which can then be filled; default: no limit. */
  readonly diskBytes?: number;
}

/** The properties of a slow network, in each direction. */
export interface NetworkTraits {
  readonly delayMs?: number;
  readonly lossPct?: number;
  readonly rateMbit?: number;
}

export interface ExecOptions extends StartOptions, WaitOptions {}

export interface ExecResult extends Exit {
  readonly stdout: string;
  readonly stderr: string;
}

const EXEC_MS = 30_000;
const PROXY = /^(https?|ftp|all|grpc|no)_proxy$/i;

export abstract class LabHost {
  readonly name: string;
  /** The IPv4 address of this host for the other hosts. */
  readonly address: string;
  /** The root of the host's own disk, as the host sees it. */
  readonly disk: string;

  constructor(name: string, address: string, disk: string) {
    this.name = name;
    this.address = address;
    this.disk = disk;
  }

  /** A path on the host's disk; an absolute path stays as it is. */
  path(...parts: string[]): string {
    return posix.resolve(this.disk, ...parts);
  }

  /** Starts a command on the host. The pid is that of the command, not of a wrapper. */
  start(command: string, args: readonly string[] = [], options: StartOptions = {}): LabProcess {
    return LabProcess.start(this.launch(command, args, options), options);
  }

  /** Runs a command to its end. A failing command is a result, not an error; at the timeout it is killed. */
  async exec(command: string, args: readonly string[] = [], options: ExecOptions = {}): Promise<ExecResult> {
    const { exit, stdout, stderr } = await this.execBytes(command, args, options);
    return { ...exit, stdout: stdout.toString('utf8'), stderr: stderr.toString('utf8') };
  }

  /** Stops the process and its descendants with SIGSTOP: alive, connected, silent. */
  async freeze(process: LabProcess): Promise<void> {
    if (!process.running) throw invalid(`${this.name}: a process that has ended cannot be frozen`);
    const pids = await processTree(process.pid);
    for (const pid of pids) this.#signal(pid, 'SIGSTOP');
    await until(
      `${this.name}: process ${process.pid} to stand still`,
      async () => {
        const stats = await Promise.all(pids.map((pid) => processStat(pid)));
        return stats.every((stat) => stat === undefined || 'TtZ'.includes(stat.state));
      },
      5_000,
    );
  }

  async thaw(process: LabProcess): Promise<void> {
    if (!process.running) return;
    for (const pid of await processTree(process.pid)) this.#signal(pid, 'SIGCONT');
  }

  /** Disconnects the host: packets to and from it are dropped silently. */
  abstract disconnect(): Promise<void>;
  /** Undoes `disconnect`. */
  abstract reconnect(): Promise<void>;
  /** Drops the packets from this host to another one silently; those in the other direction pass. */
  abstract block(to: LabHost): Promise<void>;
  /** Undoes `block`. */
  abstract unblock(to: LabHost): Promise<void>;
  /** Slows down the host's network in each direction, until `unslow`. */
  abstract slow(traits: NetworkTraits): Promise<void>;
  abstract unslow(): Promise<void>;
  /** Leaves no free byte on the disk (of a host with `diskBytes`). */
  abstract fillDisk(): Promise<void>;
  /** Undoes `fillDisk`. */
  abstract freeDisk(): Promise<void>;
  /** Empties the disk and the host's temp directory, as on a new machine. */
  abstract wipeDisk(): Promise<void>;

  async readFile(path: string): Promise<Buffer> {
    const { exit, stdout, stderr } = await this.execBytes('cat', ['--', this.path(path)], {});
    if (exit.code !== 0) {
      throw new ShoalError(
        'SHOAL_NOT_FOUND',
        `${this.name}: could not read ${path}: ${stderr.toString().trim()}`,
      );
    }
    return stdout;
  }

  /** Writes a file, making its directories. */
  async writeFile(path: string, data: string | Uint8Array): Promise<void> {
    const script = 'mkdir -p -- "$(dirname -- "$1")" && cat >"$1"';
    const { exit, stderr } = await this.execBytes('sh', ['-c', script, 'sh', this.path(path)], {
      input: data,
    });
    if (exit.code === 0) return;
    const text = stderr.toString().trim();
    const code = /no space left/i.test(text) ? 'SHOAL_NO_SPACE' : 'SHOAL_INTERNAL';
    throw new ShoalError(code, `${this.name}: could not write ${path}: ${text}`);
  }

  /** The names in a directory of the host, sorted. */
  async listFiles(path = '.'): Promise<string[]> {
    const { code, stdout, stderr } = await this.exec('ls', ['-A', '--', this.path(path)]);
    if (code !== 0)
      throw new ShoalError('SHOAL_NOT_FOUND', `${this.name}: could not list ${path}: ${stderr.trim()}`);
    return stdout
      .split('\n')
      .filter((name) => name !== '')
      .sort();
  }

  protected abstract launch(command: string, args: readonly string[], options: StartOptions): Launch;

  /** The owner's environment without proxies, which would intercept calls between hosts. */
  protected environment(own: NodeJS.ProcessEnv, options: StartOptions): NodeJS.ProcessEnv {
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !PROXY.test(name)));
    return { ...env, SHOAL_LAB_HOST: this.name, ...own, ...options.env };
  }

  protected async execBytes(
    command: string,
    args: readonly string[],
    options: ExecOptions,
  ): Promise<{ exit: Exit; stdout: Buffer; stderr: Buffer }> {
    const process = LabProcess.startForBytes(this.launch(command, args, options), options);
    try {
      const { signal, timeoutMs = EXEC_MS } = options;
      const exit = await withDeadline(process.exited, `${command} on ${this.name}`, { signal, timeoutMs });
      return { exit, stdout: process.bytes('stdout'), stderr: process.bytes('stderr') };
    } finally {
      process.kill('SIGKILL');
    }
  }

  #signal(pid: number, signal: NodeJS.Signals): void {
    try {
      process.kill(pid, signal);
    } catch (error) {
      // A descendant may end before the signal is sent.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}

export function checkTraits({ delayMs = 0, lossPct = 0, rateMbit }: NetworkTraits): void {
  if (!(delayMs >= 0)) throw invalid(`delayMs must not be negative, got ${delayMs}`);
  if (!(lossPct >= 0 && lossPct <= 100)) throw invalid(`lossPct must be within 0 and 100, got ${lossPct}`);
  if (rateMbit !== undefined && !(rateMbit > 0)) throw invalid(`rateMbit must be above 0, got ${rateMbit}`);
}
