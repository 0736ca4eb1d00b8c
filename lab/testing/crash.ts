/** Starts an owner of a lab (owner.ts) and finds leftovers after its end. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readdir, readFile, readlink } from 'node:fs/promises';
import { basename } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { withDeadline } from '../../src/base/async/deadline.js';
import { ShoalError } from '../../src/base/errors/errors.js';
import type { LabMode } from '../hosts/hosts.js';
import { markOf } from '../hosts/naming.js';
import { isRunning, until } from '../hosts/proc.js';
import type { Belongings } from './owner.js';

const OWNER = fileURLToPath(new URL('./owner.ts', import.meta.url));
const START_MS = 30_000;
const GONE_MS = 20_000;

export interface Owner {
  readonly child: ChildProcess;
  readonly belongings: Belongings;
}

export async function startOwner(mode: LabMode, end: 'stay' | 'exit' | 'throw' = 'stay'): Promise<Owner> {
  const child = spawn(process.execPath, ['--import', import.meta.resolve('tsx'), OWNER, mode, end], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stderr = '';
  child.stderr.on('data', (text) => {
    stderr += String(text);
  });
  const line = new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).once('line', resolve);
    child.once('close', () => reject(new ShoalError('SHOAL_INTERNAL', `the owner ended early: ${stderr}`)));
  });
  const text = await withDeadline(line, 'the owner', { timeoutMs: START_MS });
  return { child, belongings: JSON.parse(text) as Belongings };
}

/** Lists leftovers of the lab. */
export async function leftovers({ directory, pids, networks }: Belongings): Promise<string[]> {
  const left: string[] = [];
  if (existsSync(directory)) left.push(`directory ${directory}`);
  for (const pid of pids) if (await isRunning(pid)) left.push(`process ${pid}`);
  const own = markOf(basename(directory));
  const processes = await Promise.all((await readdir('/proc').catch(() => [])).filter(isPid).map(inspect));
  // The id of a network namespace may be reused by another lab.
  const taken = new Set(processes.filter(({ mark }) => mark && mark !== own).map(({ network }) => network));
  for (const { pid, network, mark } of processes) {
    if (networks.includes(network) && !taken.has(network)) left.push(`process ${pid} in ${network}`);
    if (mark === own) left.push(`process ${pid} with the mark`);
  }
  return left;
}

const isPid = (name: string): boolean => /^\d+$/.test(name);

async function inspect(pid: string) {
  const network = await readlink(`/proc/${pid}/ns/net`).catch(() => '');
  const environment = await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '');
  return { pid, network, mark: /(?:^|\0)SHOAL_LAB_MARK=([^\0]*)/.exec(environment)?.[1] };
}

/** Waits until nothing is left; returns what is left after the timeout. */
export async function waitUntilGone(belongings: Belongings): Promise<string[]> {
  await until(
    'the lab to be gone',
    async () => (await leftovers(belongings)).length === 0,
    GONE_MS,
    25,
  ).catch(() => {});
  return leftovers(belongings);
}

/** Kills a process that this program started, by its id, and waits until it is gone. */
export async function killHard(pid: number): Promise<void> {
  process.kill(pid, 'SIGKILL');
  await until(`process ${pid} to be gone`, async () => !(await isRunning(pid)), 5_000);
}
