/**
 * The output of a local cluster: complete lines of all tasks, each prefixed with its task's name, and on a terminal the
 * status of the tasks at the bottom, one line each. With `json`, one event per line instead.
 */
import { eventLine, eventLog, eventOf, parseEventLine } from '../../../base/text/events.js';
import type { JobEvent } from '../../../base/text/job-event.js';
import { type Log, type LogLevel, leveled, splitLevel } from '../../../base/text/log.js';

export interface ScreenStream {
  write(text: string): boolean;
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
  readonly writableNeedDrain?: boolean;
  once?(event: 'drain', listener: () => void): unknown;
}

export interface ScreenOptions {
  readonly stdout: ScreenStream;
  readonly stderr: ScreenStream;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** One event per line, as a JSON object; no status. Default: false. */
  readonly json?: boolean;
}

export type Side = 'stdout' | 'stderr';

/** ANSI colours of the task names, readable on dark and on light backgrounds. */
const COLOURS = [36, 32, 33, 35, 34, 96, 92, 93, 95, 94] as const;
const ERASE_LINE = '\r\x1b[2K';
const LINE_UP = '\x1b[1A';
/** The part of the screen that stays free for log lines. */
const LOG_ROWS = 5;
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
  /** The level of the last line of each task and stream. */
  readonly #levels = new Map<string, LogLevel>();
  readonly #json: boolean;
  #status: readonly string[] = [];

  constructor({ stdout, stderr, env = {}, json = false }: ScreenOptions) {
    this.#out = { stdout, stderr };
    this.#env = env;
    this.#json = json;
  }

  /**
   * Whether there is a terminal for the status. Log lines must go to it directly: another program, as in
   * `shoal run … | tee log`, would write them over the status.
   */
  get live(): boolean {
    const { stdout, stderr } = this.#out;
    return !this.#json && stdout.isTTY === true && stderr.isTTY === true && this.#env.TERM !== 'dumb';
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
    if (this.#json) {
      const source = `${side} ${label}`;
      const { level, message } = splitLevel(text, this.#levels.get(source));
      this.#levels.set(source, level);
      this.event(eventOf({ event: 'log' }, { task: label, level, message }), side);
      return;
    }
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

  /** A line of a task, which is an event if the task writes events. */
  taskLine(label: string, text: string, side: Side): void {
    if (this.#json && side === 'stdout' && parseEventLine(text)) this.#out.stdout.write(`${text}\n`);
    else this.line(label, text, side);
  }

  /** Writes an event; only with `json`. */
  event(event: JobEvent, side: Side = 'stdout'): void {
    this.#out[side].write(`${eventLine(event)}\n`);
  }

  /** The log of a task, with lines of at least this level. */
  log(label: string, least: LogLevel): Log {
    if (this.#json) return eventLog((event) => this.event(event), label, least);
    return leveled((line) => this.line(label, line), least);
  }

  /** Sets the lines at the bottom, the last one if there is little space; does nothing without a terminal. */
  status(lines: readonly string[]): void {
    if (!this.live) return;
    const { stderr } = this.#out;
    const erase = this.#erasure();
    const fits = lines.length + LOG_ROWS <= (stderr.rows || 24);
    // A line that wraps could not be erased. A terminal of unknown width reports 0 columns.
    this.#status = (fits ? lines : lines.slice(-1)).map((line) => line.slice(0, (stderr.columns || 80) - 1));
    stderr.write(`${erase}${this.#status.join('\n')}`);
  }

  /** Erases the status. */
  close(): void {
    if (this.#status.length > 0) this.#out.stderr.write(this.#erasure());
    this.#status = [];
  }

  #erasure(): string {
    return `${ERASE_LINE}${`${LINE_UP}${ERASE_LINE}`.repeat(Math.max(0, this.#status.length - 1))}`;
  }

  /** A promise for the drain of the stream; undefined if it is not congested. */
  congestion(side: Side): Promise<void> | undefined {
    const out = this.#out[side];
    if (out.writableNeedDrain !== true || out.once === undefined) return undefined;
    return new Promise((done) => out.once?.('drain', done));
  }

  #write(out: ScreenStream, text: string): void {
    if (this.#status.length === 0) {
      out.write(text);
      return;
    }
    this.#out.stderr.write(this.#erasure());
    out.write(text);
    this.#out.stderr.write(this.#status.join('\n'));
  }
}
