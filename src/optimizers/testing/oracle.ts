/** Asks Python TensorFlow: cases in, by name, what came of them out. One process answers them all. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Python's import of TensorFlow alone takes a minute on a busy machine. */
export const ORACLE_MS = 300_000;

export async function askTensorFlow<T>(cases: Readonly<Record<string, object>>): Promise<Record<string, T>> {
  const python = process.env.SHOAL_ORACLE_PYTHON;
  if (!python) throw new Error('set SHOAL_ORACLE_PYTHON to a Python that has tensorflow installed');
  const child = spawn(python, [fileURLToPath(new URL('oracle.py', import.meta.url))], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, TF_CPP_MIN_LOG_LEVEL: '3', CUDA_VISIBLE_DEVICES: '' },
  });
  const output: Buffer[] = [];
  const errors: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk));
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  child.stdin.end(JSON.stringify(cases));
  const code = await ended;
  if (code !== 0) throw new Error(`Python TensorFlow ended with ${code}:\n${Buffer.concat(errors)}`);
  return JSON.parse(Buffer.concat(output).toString().trimEnd().split('\n').at(-1) as string);
}
