/**
 * The output of a local cluster: complete lines of all tasks, each prefixed with its task's name, and on a terminal one
 * status line at the bottom.
 */

export interface ScreenStream {
  write(text: string): boolean;
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly writableNeedDrain?: boolean;
  once?(event: 'drain', listener: () => void): unknown;
}

export interface ScreenOptions {
  readonly stdout: ScreenStream;
  readonly stderr: ScreenStream;
  readonly env?: Readonly<Record<string, string | undefined>>;
}

export type Side = 'stdout' | 'stderr';

/** ANSI colours of the task names, readable on dark and on light backgrounds. */
const COLOURS = [36, 32, 33, 35, 34, 96, 92, 93, 95, 94] as const;
const ERASE_LINE = '\r\x1b[2K';
const RESET = '\x1b[0m';

/** Follows https://no-color.org: any value of NO_COLOR turns colours off. */
export function wantsColour(
  stream: ScreenStream,
  env: Readonly<Record<string, string | undefined>> = {},
): boolean {
  if (env.NO_COLOR) return false;
  if (env.FORCE_COLOR) return env.FORCE_COLOR !== '0';
  return stream.isTTY === true && env.TERM !== 'dumb';
}

export class Screen {
  readonly #out: Readonly<Record<Side, ScreenStream>>;
  readonly #env: Readonly<Record<string, string | undefined>>;
  readonly #labels = new Map<string, number>();
  #width = 0;
  #status = '';

  constructor({ stdout, stderr, env = {} }: ScreenOptions) {
    this.#out = { stdout, stderr };
    this.#env = env;
  }

  /** Whether there is a terminal for a status line. */
  get live(): boolean {
    return this.#out.stderr.isTTY === true && this.#env.TERM !== 'dumb';
  }

  /** Registers the names before the first line, so that all lines are aligned. */
  expect(labels: readonly string[]): void {
    for (const label of labels) {
      if (!this.#labels.has(label)) this.#labels.set(label, this.#labels.size);
      this.#width = Math.max(this.#width, label.length);
    }
  }

  line(label: string, text: string, side: Side = 'stdout'): void {
    this.expect([label]);
    const out = this.#out[side];
    const name = `${label.padEnd(this.#width)} │`;
    if (!wantsColour(out, this.#env)) {
      this.#write(out, `${name} ${text}\n`);
      return;
    }
    const colour = COLOURS[this.#labels.get(label)! % COLOURS.length];
    // A colour that a task leaves on must not affect other lines.
    const reset = text.includes('\x1b') ? RESET : '';
    this.#write(out, `\x1b[${colour}m${name}${RESET} ${text}${reset}\n`);
  }

  /** Sets the line at the bottom; does nothing without a terminal. */
  status(text: string): void {
    if (!this.live) return;
    const { stderr } = this.#out;
    // A terminal of unknown width reports 0 columns.
    this.#status = text.slice(0, (stderr.columns || 80) - 1);
    stderr.write(`${ERASE_LINE}${this.#status}`);
  }

  /** Erases the status line. */
  close(): void {
    if (this.#status !== '') this.#out.stderr.write(ERASE_LINE);
    this.#status = '';
  }

  /** A promise for the drain of the stream; undefined if it is not congested. */
  congestion(side: Side): Promise<void> | undefined {
    const out = this.#out[side];
    if (out.writableNeedDrain !== true || out.once === undefined) return undefined;
    return new Promise((done) => out.once?.('drain', done));
  }

  #write(out: ScreenStream, text: string): void {
    if (this.#status === '') {
      out.write(text);
      return;
    }
    this.#out.stderr.write(ERASE_LINE);
    out.write(text);
    this.#out.stderr.write(this.#status);
  }
}
