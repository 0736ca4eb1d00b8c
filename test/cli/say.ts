/** The command line without a process: says a command and gives what it would have written. */
import { run } from '@stricli/core';
import { application } from '../../src/cli/application.js';
import { partArguments } from '../../src/cli/context.js';

export function context(rest: readonly string[] = []) {
  const said = { stdout: '', stderr: '' };
  const stream = (side: 'stdout' | 'stderr') => ({
    write: (text: string) => {
      said[side] += text;
    },
  });
  const process: { stdout: object; stderr: object; exitCode?: number } = {
    stdout: stream('stdout'),
    stderr: stream('stderr'),
  };
  return { said, process, given: { process, rest } as never };
}

export async function say(...args: readonly string[]) {
  const { own, rest } = partArguments(args);
  const { said, process, given } = context(rest);
  await run(application, own, given);
  return { ...said, code: process.exitCode };
}
