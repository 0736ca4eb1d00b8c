/** Runs a command of the command line in this process and returns its output. */
import { run } from '@stricli/core';
import { application } from '../../src/cli/application.js';
import { splitArguments } from '../../src/cli/context.js';

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
  return { output, process, given: { process, rest } as never };
}

export async function runCommand(...args: readonly string[]) {
  const { own, rest } = splitArguments(args);
  const { output, process, given } = context(rest);
  await run(application, own, given);
  return { ...output, code: process.exitCode };
}
