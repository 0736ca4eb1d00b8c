/** A server under test: a process that prints its ports as a line of JSON. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { commandOf, environmentOf, ROOT, type Side } from '../harness.js';

const START_MS = 120_000;

export type Protocol = 'grpc' | 'rest';

export class ServerProcess {
  readonly #child: ChildProcess;
  readonly ports: Readonly<Partial<Record<Protocol, number>>>;

  private constructor(
    child: ChildProcess,
    ports: ServerProcess['ports'],
    readonly name: string,
  ) {
    this.#child = child;
    this.ports = ports;
  }

  static async start(
    side: Side,
    program: string,
    settings: unknown,
    pythonPath?: string,
  ): Promise<ServerProcess> {
    const [command, file] = commandOf(side, program);
    const env = { ...environmentOf(settings), ...(pythonPath && { PYTHONPATH: pythonPath }) };
    const child = spawn(command, [file], { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'inherit'] });
    const ports = await new Promise<ServerProcess['ports']>((resolve, reject) => {
      const timer = setTimeout(() => {
        child.kill('SIGKILL');
        reject(new Error(`${program} did not start in ${START_MS} ms`));
      }, START_MS);
      child.once('exit', (code) => reject(new Error(`${program} exited with ${code}`)));
      createInterface({ input: child.stdout }).once('line', (line) => {
        clearTimeout(timer);
        resolve(JSON.parse(line));
      });
    });
    return new ServerProcess(child, ports, `${program} ${JSON.stringify(settings)}`);
  }

  /** Resident memory in MB, and its peak, which is often during the load; undefined where the system reports none. */
  get memory(): { readonly resident: number; readonly peak: number } | undefined {
    if (process.platform !== 'linux') return undefined;
    const status = readFileSync(`/proc/${this.#child.pid}/status`, 'utf8');
    const read = (name: string) =>
      Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]) / 1000;
    return { resident: read('VmRSS'), peak: read('VmHWM') };
  }

  /** CPU time of all threads so far in ms; undefined where the system does not report it. */
  get cpuMs(): number | undefined {
    if (process.platform !== 'linux') return undefined;
    const stat = readFileSync(`/proc/${this.#child.pid}/stat`, 'utf8');
    // After the name, which may contain spaces, the 12th and the 13th field, in hundredths of a second.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[11]) + Number(fields[12])) * 10;
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGKILL');
    await exited;
  }
}
