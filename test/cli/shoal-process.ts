/** Runs the command line in real processes. */
import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { childEnvironment, ROOT } from '../setup/run-setup.js';

export const BIN = join(ROOT, 'bin/shoal.cjs');

export interface ShoalProcess {
  readonly child: ChildProcess;
  readonly pid: number;
  /** The output so far. */
  readonly output: { readonly stdout: string; readonly stderr: string };
  readonly ended: Promise<number | null>;
}

export interface ShoalOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** Passes on where to find TensorFlow, but no other setting of Shoal. */
export function startShoal(args: readonly string[], { cwd, env = {} }: ShoalOptions): ShoalProcess {
  const { SHOAL_TF_DIR, SHOAL_CACHE } = process.env;
  const child = spawn(process.execPath, [BIN, ...args], {
    cwd,
    env: childEnvironment({
      SHOAL_TF_DIR,
      SHOAL_CACHE,
      TF_CONFIG: undefined,
      FORCE_COLOR: undefined,
      ...env,
    }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  for (const side of ['stdout', 'stderr'] as const) {
    child[side].setEncoding('utf8').on('data', (text: string) => {
      output[side] += text;
    });
  }
  const ended = new Promise<number | null>((done) => child.once('close', done));
  return { child, pid: child.pid!, output, ended };
}

export async function shoal(args: readonly string[], options: ShoalOptions) {
  const { output, ended } = startShoal(args, options);
  const code = await ended;
  return { code, ...output };
}

/** Whether a process runs; a zombie does not. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return process.platform !== 'linux' || !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}
