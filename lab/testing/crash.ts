/** Starts an owner of a lab (owner.ts), lets it end in some way, and looks for what it left. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readdir, readFile, readlink } from 'node:fs/promises';
import { basename } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { withDeadline } from '../../src/async/deadline.js';
import { ShoalError } from '../../src/errors/errors.js';
import type { LabMode } from '../hosts.js';
import { markOf } from '../naming.js';
import { isRunning, until } from '../proc.js';
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

/** What of the lab is still there, in words. */
export async function leftovers({ directory, pids, networks }: Belongings): Promise<string[]> {
  const left: string[] = [];
  if (existsSync(directory)) left.push(`directory ${directory}`);
  for (const pid of pids) if (await isRunning(pid)) left.push(`process ${pid}`);
  const mark = `SHOAL_LAB_MARK=${markOf(basename(directory))}`;
  for (const pid of await readdir('/proc').catch(() => [])) {
    if (!/^\d+$/.test(pid)) continue;
    const network = await readlink(`/proc/${pid}/ns/net`).catch(() => '');
    if (networks.includes(network)) left.push(`process ${pid} in ${network}`);
    const environment = await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => '');
    if (environment.includes(mark)) left.push(`process ${pid} with the mark`);
  }
  return left;
}

/** Waits until nothing is left; returns what was after the longest wait. */
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
