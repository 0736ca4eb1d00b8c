/** The last log lines of a task, in bounded memory. */
import type { Log } from '../../../base/text/log.js';
import type { LogLine, LogPart } from '../state.js';

const MOST_LINES = 1000;
const LONGEST_LINE = 2000;
/** Lines in one answer. */
const MOST_SENT = 500;

export class TaskLog {
  readonly #lines: LogLine[] = [];
  #number = 0;

  /** A log that also keeps its lines here. */
  tee(log: Log): Log {
    return (line, level, data) => {
      log(line, level, data);
      this.add(line, level);
    };
  }

  add(line: string, level = 'info', at = Date.now()): void {
    const text = line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)} …` : line;
    this.#number += 1;
    this.#lines.push({ number: this.#number, at, level, text });
    if (this.#lines.length > MOST_LINES) this.#lines.shift();
  }

  /** The newest lines after a number. */
  after(number: number): LogPart {
    const lines = this.#lines.filter((line) => line.number > number).slice(-MOST_SENT);
    const [first] = lines;
    return { lines, dropped: first !== undefined && first.number > number + 1 };
  }
}
