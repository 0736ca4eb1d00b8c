/** Runs a Python program of this folder with real TensorFlow and gives what it prints as JSON on its last line. */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export async function oracle<T>(program: string, ...args: string[]): Promise<T> {
  const python = process.env.SHOAL_ORACLE_PYTHON;
  if (!python)
    throw new Error('set SHOAL_ORACLE_PYTHON to a Python that has tensorflow and tensorboard installed');
  const script = fileURLToPath(new URL(program, import.meta.url));
  const child = spawn(python, [script, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, TF_CPP_MIN_LOG_LEVEL: '3', CUDA_VISIBLE_DEVICES: '' },
  });
  const output: Buffer[] = [];
  const errors: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  if (code !== 0)
    throw new Error(`${program} ${args.join(' ')} ended with ${code}:\n${Buffer.concat(errors)}`);
  return JSON.parse(Buffer.concat(output).toString().trimEnd().split('\n').at(-1)!) as T;
}

export async function temporaryDirectory(): Promise<{ path: string; remove(): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'shoal-formats-'));
  return { path, remove: () => rm(path, { recursive: true, force: true }) };
}
