/** Cuts a stream of bytes into whole lines, however its chunks fall, and never holds more than one long line. */
import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';

/** A longer line goes out in pieces: a program that writes no line ends must not fill the memory. */
const LONGEST = 1 << 20;

export class LineSplitter {
  readonly #decoder = new StringDecoder('utf8');
  readonly #take: (line: string) => void;
  #rest = '';

  constructor(take: (line: string) => void) {
    this.#take = take;
  }

  push(chunk: Buffer): void {
    this.#cut(this.#rest + this.#decoder.write(chunk));
    while (this.#rest.length > LONGEST) {
      this.#take(this.#rest.slice(0, LONGEST));
      this.#rest = this.#rest.slice(LONGEST);
    }
  }

  /** The stream has ended: what is left is a line, too. */
  end(): void {
    this.#cut(this.#rest + this.#decoder.end());
    if (this.#rest !== '') this.#take(this.#rest);
    this.#rest = '';
  }

  #cut(text: string): void {
    const lines = text.split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#take(line.endsWith('\r') ? line.slice(0, -1) : line);
  }
}

/** Hands each line of a stream to `take`; the promise ends with the stream. */
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
    // A pipe that breaks has no more lines; that its process is gone is noticed elsewhere.
    stream.once('error', end);
  });
}
