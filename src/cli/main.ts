/** Runs the command line: parses the arguments, loads the one command that is asked for, sets the exit code. */

import { run } from '@stricli/core';
import { EXIT } from '../errors/exit-codes.js';
import { application } from './application.js';
import { partArguments, type ShoalContext } from './context.js';

/** What a wrong command line exits with, as is usual on Unix; the parser's own codes are negative. */

export async function main(args: readonly string[]): Promise<void> {
  const { own, rest } = partArguments(args);
  const context: ShoalContext = { process, rest };
  await run(application, own, context);
  if (typeof process.exitCode === 'number' && process.exitCode < 0) process.exitCode = EXIT.usage;
}
