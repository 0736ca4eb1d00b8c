/** Splits a stream of bytes into lines, with bounded memory. */
import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';

/** Longer lines are split: a program that writes no newlines must not fill the memory. */
const MAX_LINE_CHARS = 1 << 20;

export class LineSplitter {
  readonly #decoder = new StringDecoder('utf8');
  readonly #take: (line: string) => void;
  #rest = '';

  constructor(take: (line: string) => void) {
    this.#take = take;
  }

  push(chunk: Buffer): void {
    this.#split(this.#rest + this.#decoder.write(chunk));
    while (this.#rest.length > MAX_LINE_CHARS) {
      this.#take(this.#rest.slice(0, MAX_LINE_CHARS));
      this.#rest = this.#rest.slice(MAX_LINE_CHARS);
    }
  }

  /** Emits the rest, which has no newline, as a line. */
  end(): void {
    this.#split(this.#rest + this.#decoder.end());
    if (this.#rest !== '') this.#take(this.#rest);
    this.#rest = '';
  }

  #split(text: string): void {
    const lines = text.split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#take(line.endsWith('\r') ? line.slice(0, -1) : line);
  }
}

/** Calls `take` with each line of a stream; resolves when the stream ends. */
export function readLines(stream: Readable, take: (line: string) => void): Promise<void> {
  const splitter = new LineSplitter(take);
  stream.on('data', (chunk: Buffer) => splitter.push(chunk));
  return new Promise((done) => {
    let over = false;
    const end = () => {
      if (over) return;
      over = true;
      splitter.end();
      done();
    };
    stream.once('end', end);
    stream.once('close', end);
    // A broken pipe has no more lines; the end of its process is handled elsewhere.
    stream.once('error', end);
  });
}
