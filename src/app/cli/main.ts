/** Runs the command line: parses the arguments, loads the requested command, sets the exit code. */
import { run, type StricliProcess } from '@stricli/core';
import { EXIT } from '../../base/errors/exit-codes.js';
import { application, jsonApplication } from './application.js';
import { closedOutput, isReaderGone } from './closed-output.js';
import { type ShoalContext, splitArguments } from './context.js';
import { describeFailure } from './failure.js';

export async function main(args: readonly string[]): Promise<void> {
  const outputClosed = closedOutput([process.stdout, process.stderr]);
  await runShoal(args, process, outputClosed);
  const { aborted, reason } = outputClosed;
  if (!aborted || isReaderGone(reason)) return;
  process.stderr.write(`${describeFailure(reason)}\n`);
  process.exitCode ||= EXIT.error;
}

/** Runs a command; `process` gets its output and its exit code. */
export async function runShoal(
  args: readonly string[],
  process: StricliProcess,
  outputClosed: AbortSignal,
): Promise<void> {
  const { own, rest } = splitArguments(args);
  const context: ShoalContext = { process, rest, outputClosed };
  await run(own.includes('--json') ? jsonApplication : application, own, context);
  // The parser's own exit codes for a wrong command line are negative.
  if (typeof process.exitCode === 'number' && process.exitCode < 0) process.exitCode = EXIT.usage;
}
