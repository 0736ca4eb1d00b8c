/** What the commands get beside their flags. */
import type { CommandContext, StricliProcess } from '@stricli/core';

export interface ShoalContext extends CommandContext {
  readonly process: StricliProcess;
  /** What stands after `--`: the arguments of the user's own program. */
  readonly rest: readonly string[];
}

/** The commands that hand on arguments of somebody else. */
const TAKES_REST: ReadonlySet<string> = new Set(['run', 'task', 'complete']);

/** Parts the command line at the first `--`, for the commands that have a use for what follows. */
export function partArguments(args: readonly string[]): {
  readonly own: readonly string[];
  readonly rest: readonly string[];
} {
  const at = args.indexOf('--');
  if (at < 0 || !TAKES_REST.has(args[0] ?? '')) return { own: args, rest: [] };
  return { own: args.slice(0, at), rest: args.slice(at + 1) };
}
