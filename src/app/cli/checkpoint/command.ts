/** Common to all checkpoint commands: open the store, stop on Ctrl-C, report damage, close the store. */
import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import { describeBytes, ProgressLine } from '../../../base/text/progress-line.js';
import { stopSignals } from '../../job/launcher/stop-signals.js';
import type { ShoalContext } from '../context.js';
import type { PlaceFlags } from './flags.js';
import { type OpenOptions, type OpenStore, openEach, openStore } from './open.js';

export interface CheckpointWork extends Terminal {
  readonly open: OpenStore;
}

export interface Terminal {
  readonly signal: AbortSignal;
  readonly bar: ProgressLine;
  /** Prints a notice to stderr, for example that a damaged copy was skipped. */
  readonly onNotice: (line: string) => void;
  /** Prints the result of the command: as JSON with --json, otherwise as lines. */
  answer(value: unknown, lines: () => readonly string[]): void;
}

export async function withStore<T>(
  context: ShoalContext,
  flags: PlaceFlags & { readonly replicas?: number },
  work: (given: CheckpointWork) => Promise<T>,
  options: Pick<OpenOptions, 'create'> = {},
): Promise<T> {
  return withTerminal(context, flags, async (terminal) => {
    const { signal } = terminal;
    await using open = await openStore(flags, { ...options, replicas: flags.replicas, signal });
    return await work({ ...terminal, open });
  });
}

/** Like `withStore`, for every store that matches the flags. */
export async function withEachStore<T>(
  context: ShoalContext,
  flags: PlaceFlags,
  work: (given: Terminal, stores: readonly OpenStore[]) => Promise<T>,
): Promise<T> {
  return withTerminal(context, flags, async (terminal) => {
    const stores = await openEach(flags, terminal);
    try {
      return await work(terminal, stores);
    } finally {
      for (const open of stores) await open[Symbol.asyncDispose]();
    }
  });
}

/** For a command that needs no store. */
export async function withTerminal<T>(
  { process: { stdout, stderr } }: ShoalContext,
  flags: { readonly json: boolean },
  work: (given: Terminal) => Promise<T>,
): Promise<T> {
  const signals = stopSignals();
  const { stop: signal } = signals;
  const bar = new ProgressLine(stderr, { describe: describeBytes, isEnabled: !flags.json });
  try {
    return await work({
      signal,
      bar,
      onNotice: (line) => bar.note(line),
      answer: (value, lines) => {
        bar.end();
        const text = flags.json ? JSON.stringify(value, null, 2) : lines().join('\n');
        if (text !== '') stdout.write(`${text}\n`);
      },
    });
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new ShoalError('SHOAL_ABORTED', `interrupted: ${messageOf(error)}`, { cause: error });
  } finally {
    bar.end();
    signals.dispose();
  }
}
