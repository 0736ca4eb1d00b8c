/** Runs the command line: parses the arguments, loads the requested command, sets the exit code. */
import { run } from '@stricli/core';
import { EXIT } from '../errors/exit-codes.js';
import { application } from './application.js';
import { type ShoalContext, splitArguments } from './context.js';

export async function main(args: readonly string[]): Promise<void> {
  const { own, rest } = splitArguments(args);
  const context: ShoalContext = { process, rest };
  await run(application, own, context);
  // The parser's own exit codes for a wrong command line are negative.
  if (typeof process.exitCode === 'number' && process.exitCode < 0) process.exitCode = EXIT.usage;
}
