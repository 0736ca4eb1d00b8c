/**
 * The standard output of a command with --json: one event per line. What the job itself prints there, for example with
 * console.log, becomes events too.
 */
import { eventLine, eventOf } from '../../../base/text/events.js';
import type { JobEvent } from '../../../base/text/job-event.js';
import { splitLevel } from '../../../base/text/log.js';
import { LineSplitter } from '../../job/launcher/lines.js';
import type { ScreenStream } from '../../job/launcher/screen.js';
import { failureData } from '../failure.js';

type Write = typeof process.stdout.write;

export class EventOutput implements Disposable {
  /** Writes to standard output itself. */
  readonly stdout: ScreenStream;
  readonly #task: string;
  readonly #stream: NodeJS.WriteStream;
  readonly #write: Write;
  readonly #lines: LineSplitter;

  /** `task` is the one in whose name events are written. */
  constructor(task: string, stream: NodeJS.WriteStream = process.stdout) {
    this.#task = task;
    this.#stream = stream;
    this.#write = stream.write;
    const write = (text: string) => this.#write.call(stream, text);
    this.stdout = {
      write,
      get writableNeedDrain() {
        return stream.writableNeedDrain;
      },
      once: (event, listener) => stream.once(event, listener),
    };
    this.#lines = new LineSplitter((line) => {
      const { level, message } = splitLevel(line);
      this.event(eventOf({ event: 'log' }, { task, level, message }));
    });
    stream.write = ((chunk: string | Uint8Array, ...rest: readonly unknown[]): boolean => {
      this.#lines.push(
        typeof chunk === 'string' ? Buffer.from(chunk, encodingOf(rest[0])) : Buffer.from(chunk),
      );
      const done = rest.find((one) => typeof one === 'function') as (() => void) | undefined;
      if (done) process.nextTick(done);
      return !stream.writableNeedDrain;
    }) as Write;
    process.once('exit', this.#end);
  }

  readonly event = (event: JobEvent): void => {
    this.stdout.write(`${eventLine(event)}\n`);
  };

  /** Reports the error that ends the task. */
  failed(error: unknown): void {
    const { message, ...data } = failureData(error);
    this.event(eventOf({ event: 'error', ...data }, { task: this.#task, level: 'error', message }));
  }

  /** A last line without a newline is one too. */
  readonly #end = (): void => this.#lines.end();

  [Symbol.dispose](): void {
    this.#end();
    process.off('exit', this.#end);
    this.#stream.write = this.#write;
  }
}

const encodingOf = (given: unknown): BufferEncoding =>
  typeof given === 'string' && Buffer.isEncoding(given) ? given : 'utf8';
