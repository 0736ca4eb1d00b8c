/** A line with a progress bar that is rewritten at the bottom of a terminal; without a terminal there is no such line. */
import { bytes } from './format.js';

/** Where the lines go, for example `process.stdout`. */
export interface ProgressOutput {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

export interface ProgressLineOptions {
  /** The text after the bar. */
  readonly describe: (done: number, total: number, elapsedMs: number) => string;
  /** Default: true. */
  readonly isEnabled?: boolean;
  readonly now?: () => number;
}

const WIDTH = 24;
const EVERY_MS = 100;
const ERASE_LINE = '\r\x1b[2K';

export class ProgressLine {
  readonly #output: ProgressOutput;
  readonly #describe: ProgressLineOptions['describe'];
  readonly #isShown: boolean;
  readonly #now: () => number;
  readonly #begun: number;
  #label = '';
  #drawn = Number.NEGATIVE_INFINITY;

  constructor(output: ProgressOutput, options: ProgressLineOptions) {
    const { describe, isEnabled = true, now = () => performance.now() } = options;
    this.#output = output;
    this.#describe = describe;
    this.#isShown = isEnabled && output.isTTY === true && process.env.TERM !== 'dumb';
    this.#now = now;
    this.#begun = now();
  }

  /** Sets the text before the bar. */
  label(text: string): void {
    this.#label = text;
  }

  /** Draws the line, unless it was drawn a moment ago. */
  readonly update = (done: number, total: number): void => {
    const now = this.#now();
    if (!this.#isShown || now - this.#drawn < EVERY_MS) return;
    this.#drawn = now;
    const line = `${this.#label} ${bar(done, total)} ${this.#describe(done, total, now - this.#begun)}`;
    // A line that wraps could not be erased. A terminal of unknown width reports 0 columns.
    this.#output.write(`${ERASE_LINE}${line.slice(0, (this.#output.columns || 80) - 1)}`);
  };

  /** Writes a line that stays. */
  note(line: string): void {
    this.end();
    this.#output.write(`${line}\n`);
    this.#drawn = Number.NEGATIVE_INFINITY;
  }

  /** Erases the line. */
  end(): void {
    if (this.#isShown) this.#output.write(ERASE_LINE);
  }
}

const partOf = (done: number, total: number): number => (total > 0 ? Math.min(1, done / total) : 1);

function bar(done: number, total: number): string {
  const full = Math.floor(partOf(done, total) * WIDTH);
  return `${'█'.repeat(full)}${'░'.repeat(WIDTH - full)}`;
}

/** The text for work that is counted in bytes: the fraction, the rate and the time left. */
export function describeBytes(done: number, total: number, elapsedMs: number): string {
  const perSecond = elapsedMs > 0 ? (done * 1000) / elapsedMs : 0;
  const left = perSecond > 0 ? ` · ${Math.ceil((total - done) / perSecond)} s left` : '';
  const percent = String(Math.floor(partOf(done, total) * 100)).padStart(3);
  return `${percent} % · ${bytes(done)} of ${bytes(total)} · ${bytes(perSecond)}/s${left}`;
}
