/**
 * The guard of a lab: a shell outside the hosts that holds one end of a pipe. When the owner disposes of the
 * lab, exits, or is killed, the pipe ends, and the guard kills the lab's processes and removes its
 * directory (guard.sh). So the owner needs no signal handlers. A guard that was killed together with its
 * owner leaves the directory behind; the next lab on this machine removes it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { stat, writeFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { withDeadline } from '../../src/base/async/deadline.js';
import { ShoalError } from '../../src/base/errors/errors.js';
import { formatLabName, listLabs, markOf, ownerIsAlive } from './naming.js';

const SCRIPT = fileURLToPath(new URL('./guard.sh', import.meta.url));
const END_MS = 30_000;

interface Ended {
  readonly code: number | null;
  readonly stderr: string;
}

function run(name: string, directory: string): { child: ChildProcess; ended: Promise<Ended> } {
  // In its own session: Ctrl-C at the terminal must not kill the guard together with the owner.
  const child = spawn('sh', [SCRIPT, name, directory], {
    detached: true,
    cwd: '/',
    stdio: ['pipe', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  child.stdin.on('error', () => {
    // The guard has ended; `end` detects that and runs another.
  });
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, stderr }));
  });
  ended.catch(() => {});
  return { child, ended };
}

/** Cleans up after a lab whose owner has ended. */
async function clean(name: string, directory: string): Promise<void> {
  const { child, ended } = run(name, directory);
  child.stdin?.end();
  const { code, stderr } = await withDeadline(ended, `cleaning up ${name}`, { timeoutMs: END_MS });
  if (code !== 0) throw new ShoalError('SHOAL_INTERNAL', `could not clean up ${name}: ${stderr.trim()}`);
}

export class Guard {
  readonly #name: string;
  readonly #directory: string;
  readonly #child: ChildProcess;
  readonly #ended: Promise<Ended>;

  private constructor(name: string, directory: string) {
    this.#name = name;
    this.#directory = directory;
    const { child, ended } = run(name, directory);
    this.#child = child;
    this.#ended = ended;
    child.unref();
    (child.stdin as Socket).unref();
    (child.stderr as Socket).unref();
  }

  /** Starts the guard of a lab; from then on the owner may die at any time. */
  static async start(name: string, directory: string): Promise<Guard> {
    await writeFile(join(directory, 'mark'), `SHOAL_LAB_MARK=${markOf(name)}\n`);
    return new Guard(name, directory);
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }

  /** Lets the guard clean up and waits until it has. */
  async end(): Promise<void> {
    this.#child.ref();
    (this.#child.stderr as Socket).ref();
    this.#child.stdin?.end();
    const { code } = await withDeadline(this.#ended, `the guard of ${this.#name}`, { timeoutMs: END_MS });
    if (code === 0) return;
    await clean(this.#name, this.#directory);
  }
}

/** Cleans up after labs whose owner died together with its guard. Returns their names. */
export async function sweep(base: string): Promise<string[]> {
  const swept: string[] = [];
  for (const lab of await listLabs(base)) {
    if (await ownerIsAlive(lab)) continue;
    const name = formatLabName(lab);
    const directory = join(base, name);
    const found = await stat(directory).catch(() => undefined);
    const mine = process.getuid?.();
    if (found === undefined || (mine !== 0 && found.uid !== mine)) continue;
    await clean(name, directory);
    swept.push(name);
  }
  return swept;
}
