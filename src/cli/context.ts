/** The context that commands receive in addition to their flags. */
import type { CommandContext, StricliProcess } from '@stricli/core';

export interface ShoalContext extends CommandContext {
  readonly process: StricliProcess;
  /** The arguments after `--`, for the user's program. */
  readonly rest: readonly string[];
}

/** The commands that accept arguments after `--`. */
const TAKES_REST: ReadonlySet<string> = new Set(['run', 'task', 'complete']);

/** Splits the command line at the first `--`, for the commands that accept arguments after it. */
export function splitArguments(args: readonly string[]): {
  readonly own: readonly string[];
  readonly rest: readonly string[];
} {
  const at = args.indexOf('--');
  if (at < 0 || !TAKES_REST.has(args[0] ?? '')) return { own: args, rest: [] };
  return { own: args.slice(0, at), rest: args.slice(at + 1) };
}
