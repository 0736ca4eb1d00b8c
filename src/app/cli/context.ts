/** The context that commands receive in addition to their flags. */
import type { CommandContext, StricliProcess } from '@stricli/core';

export interface ShoalContext extends CommandContext {
  readonly process: StricliProcess;
  /** The arguments after `--`, for the user's program. */
  readonly rest: readonly string[];
  /** Aborted when nobody reads the output any more. */
  readonly outputClosed: AbortSignal;
}

/** The commands that accept arguments after `--`. */
const TAKES_REST: ReadonlySet<string> = new Set(['run', 'sweep', 'task', 'complete']);

/**
 * Splits the command line at the first `--`, for the commands that accept arguments after it. `help COMMAND` becomes
 * `COMMAND --help`. Flags may be written with - or with _, as in TensorFlow 1.
 */
export function splitArguments(args: readonly string[]): {
  readonly own: readonly string[];
  readonly rest: readonly string[];
} {
  const [first, ...others] = args;
  if (first === 'help') return { own: [...others, '--help'], rest: [] };
  const at = args.indexOf('--');
  if (at < 0 || !TAKES_REST.has(first ?? '')) return { own: args.map(asDeclared), rest: [] };
  return { own: args.slice(0, at).map(asDeclared), rest: args.slice(at + 1) };
}

/** A flag with the name by which it is declared, so that the parser finds similar ones for a name that is unknown. */
function asDeclared(arg: string): string {
  const [, name, value = ''] = /^--([a-z][\w-]*)(=.*)?$/s.exec(arg) ?? [];
  if (name === undefined) return arg;
  return `--${name.replace(/[_-]([a-z])/g, (_all, letter: string) => letter.toUpperCase())}${value}`;
}

/** The names of flags in a message, as users write them. */
export const asWritten = (message: string): string =>
  message.replace(/--[a-z]+(?:[A-Z][a-z\d]*)+/g, (flag) =>
    flag.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
  );
