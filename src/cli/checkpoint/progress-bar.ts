/** A progress bar at the bottom of a terminal; prints nothing if there is no terminal. */
import { bytes } from '../../text/format.js';

export interface BarStream {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
}

const WIDTH = 24;
const EVERY_MS = 100;
const ERASE_LINE = '\r\x1b[2K';

export class ProgressBar {
  readonly #stream: BarStream;
  readonly #isShown: boolean;
  readonly #now: () => number;
  readonly #begun: number;
  #label = '';
  #drawn = Number.NEGATIVE_INFINITY;

  constructor(stream: BarStream, isEnabled = true, now = () => performance.now()) {
    this.#stream = stream;
    this.#isShown = isEnabled && stream.isTTY === true && process.env.TERM !== 'dumb';
    this.#now = now;
    this.#begun = now();
  }

  label(text: string): void {
    this.#label = text;
  }

  readonly update = (done: number, total: number): void => {
    const now = this.#now();
    if (!this.#isShown || now - this.#drawn < EVERY_MS) return;
    this.#drawn = now;
    const line = barLine(this.#label, done, total, now - this.#begun);
    this.#stream.write(`${ERASE_LINE}${line.slice(0, (this.#stream.columns || 80) - 1)}`);
  };

  /** Writes a line above the bar. */
  note(line: string): void {
    if (this.#isShown) this.#stream.write(ERASE_LINE);
    this.#stream.write(`${line}\n`);
    this.#drawn = Number.NEGATIVE_INFINITY;
  }

  end(): void {
    if (this.#isShown) this.#stream.write(ERASE_LINE);
  }
}

export function barLine(label: string, done: number, total: number, elapsedMs: number): string {
  const part = total > 0 ? Math.min(1, done / total) : 1;
  const full = Math.floor(part * WIDTH);
  const bar = `${'█'.repeat(full)}${'░'.repeat(WIDTH - full)}`;
  const perSecond = elapsedMs > 0 ? (done * 1000) / elapsedMs : 0;
  const left = perSecond > 0 ? ` · ${Math.ceil((total - done) / perSecond)} s left` : '';
  const percent = String(Math.floor(part * 100)).padStart(3);
  return `${label} ${bar} ${percent} % · ${bytes(done)} of ${bytes(total)} · ${bytes(perSecond)}/s${left}`;
}
