/** The progress of `fit`: a line that is rewritten on a terminal, and one line per epoch. */
import type { Logs } from './callbacks.js';

/** Where the lines go, for example `process.stdout`. */
export interface ProgressOutput {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

const BAR = 20;
const REDRAW_MS = 100;
const CLEAR_LINE = '\r\u001b[K';

export class ProgressLine {
  readonly #output: ProgressOutput;
  readonly #epochs: number;
  #drawnAt = Number.NEGATIVE_INFINITY;

  constructor(output: ProgressOutput, epochs: number) {
    this.#output = output;
    this.#epochs = epochs;
  }

  /** `done` of `total` batches of the epoch. */
  batch(epoch: number, done: number, total: number, logs: () => Logs): void {
    if (!this.#output.isTTY) return;
    const now = performance.now();
    if (now - this.#drawnAt < REDRAW_MS) return;
    this.#drawnAt = now;
    const filled = Math.round((BAR * done) / total);
    const bar = `${'━'.repeat(filled)}${'·'.repeat(BAR - filled)}`;
    const text = [`${this.#title(epoch)} ${bar} ${done}/${total}`, ...described(logs())].join(' · ');
    this.#output.write(`${CLEAR_LINE}${text.slice(0, (this.#output.columns ?? 80) - 1)}`);
  }

  epoch(epoch: number, secs: number, logs: Logs): void {
    const text = [this.#title(epoch), `${secs.toFixed(1)} s`, ...described(logs)].join(' · ');
    this.#output.write(`${this.#output.isTTY ? CLEAR_LINE : ''}${text}\n`);
    this.#drawnAt = Number.NEGATIVE_INFINITY;
  }

  #title(epoch: number): string {
    return `epoch ${epoch + 1}/${this.#epochs}`;
  }
}

const described = (logs: Logs): string[] =>
  Object.entries(logs).map(([name, value]) => `${name} ${value.toPrecision(4)}`);
