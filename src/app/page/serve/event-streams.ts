/** The connections over which pages get updates, as server-sent events. */
import type { ServerResponse } from 'node:http';
import type { PageState } from '../state.js';
import type { PageSource } from '../view/page-source.js';

const MOST_STREAMS = 32;
/** A page that reads no more than this behind is closed: it connects again and gets a new state. */
const MOST_BEHIND = 4 << 20;
const BEAT_MS = 15_000;

export class EventStreams implements Disposable {
  readonly #open = new Set<ServerResponse>();
  /** The text of the last update: all pages get the same. */
  #last: { readonly update: PageState; readonly text: string } | undefined;

  open(response: ServerResponse, source: PageSource, cursor: number): void {
    if (this.#open.size >= MOST_STREAMS) {
      response.writeHead(503, { 'content-type': 'text/plain', connection: 'close' });
      response.end('too many pages are open at this task\n');
      return;
    }
    this.#open.add(response);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const missed = source.updatesAfter(cursor);
    response.write('retry: 1000\n\n');
    // The page asks for the whole state again.
    if (missed === undefined) response.write('event: stale\ndata: {}\n\n');
    for (const update of missed ?? []) response.write(this.#textOf(update));
    const stop = source.watch((update) => {
      if (response.writableLength > MOST_BEHIND) response.destroy();
      else response.write(this.#textOf(update));
    });
    const timer = setInterval(() => response.write(': \n\n'), BEAT_MS).unref();
    response.once('close', () => {
      stop();
      clearInterval(timer);
      this.#open.delete(response);
    });
  }

  #textOf(update: PageState): string {
    if (this.#last?.update !== update)
      this.#last = { update, text: `id: ${update.cursor}\ndata: ${JSON.stringify(update)}\n\n` };
    return this.#last.text;
  }

  [Symbol.dispose](): void {
    for (const response of this.#open) response.end();
  }
}
