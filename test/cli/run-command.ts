/** Runs a command of the command line in this process and returns its output. */
import { runShoal } from '../../src/app/cli/main.js';

export function context(rest: readonly string[] = []) {
  const output = { stdout: '', stderr: '' };
  const stream = (side: 'stdout' | 'stderr') => ({
    write: (text: string) => {
      output[side] += text;
    },
  });
  const process: { stdout: object; stderr: object; exitCode?: number } = {
    stdout: stream('stdout'),
    stderr: stream('stderr'),
  };
  const outputClosed = new AbortController().signal;
  return { output, process, given: { process, rest, outputClosed } as never };
}

export async function runCommand(...args: readonly string[]) {
  const { output, process } = context();
  await runShoal(args, process as never, new AbortController().signal);
  return { ...output, code: process.exitCode };
}
