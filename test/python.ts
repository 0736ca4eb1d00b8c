/** Runs a Python program with real TensorFlow: JSON on stdin, JSON on the last line of stdout. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { ONEDNN_VARIABLE, oneDnnSetting } from '../src/tensorflow/native/library/onednn.js';

export async function askPython<T>(
  program: URL,
  request: unknown = null,
  args: readonly string[] = [],
): Promise<T> {
  const python = process.env.SHOAL_ORACLE_PYTHON;
  if (!python) throw new Error('Set SHOAL_ORACLE_PYTHON to a Python that has tensorflow installed');
  const path = fileURLToPath(program);
  const child = spawn(python, [path, ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: {
      ...process.env,
      TF_CPP_MIN_LOG_LEVEL: '3',
      CUDA_VISIBLE_DEVICES: '',
      // Both sides of the comparison must use the same kernels.
      [ONEDNN_VARIABLE]: oneDnnSetting(),
    },
  });
  const output: Buffer[] = [];
  const errors: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk));
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
    // A Python process that dies early closes the pipe; its exit code and stderr give the reason.
    child.stdin.on('error', () => undefined);
  });
  child.stdin.end(JSON.stringify(request));
  const code = await ended;
  if (code !== 0)
    throw new Error(`${[path, ...args].join(' ')} exited with code ${code}:\n${Buffer.concat(errors)}`);
  return JSON.parse(Buffer.concat(output).toString().trimEnd().split('\n').at(-1) as string) as T;
}
