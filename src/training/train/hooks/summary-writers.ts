/** The event files of a training session: one writer per directory, shared by all hooks. */
import { FileWriter, type FileWriterOptions } from '../../../tensorflow/summary/file-writer.js';

export class SummaryWriters implements AsyncDisposable {
  readonly #options: FileWriterOptions;
  readonly #writers = new Map<string, FileWriter>();

  constructor(options: FileWriterOptions = {}) {
    this.#options = options;
  }

  get(directory: string): FileWriter {
    const known = this.#writers.get(directory);
    if (known) return known;
    const made = new FileWriter(directory, this.#options);
    this.#writers.set(directory, made);
    return made;
  }

  /** Closes all writers, then throws the first write error. */
  async close(): Promise<void> {
    const ends = await Promise.allSettled([...this.#writers.values()].map((writer) => writer.close()));
    this.#writers.clear();
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
