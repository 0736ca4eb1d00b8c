/** Counts the bytes of connections. Node counts them per connection; the sums are made when they are read. */
import type { Socket } from 'node:net';

/** A connection that Node does not manage. */
export interface CountedChannel {
  readonly bytesRead: number;
  readonly bytesWritten: number;
  readonly ended: Promise<void>;
}

export class Traffic {
  readonly #open = new Set<Pick<CountedChannel, 'bytesRead' | 'bytesWritten'>>();
  #received = 0;
  #sent = 0;

  /** Counts the bytes of a connection from now on, once. */
  watch(socket: Socket): void {
    if (this.#open.has(socket) || socket.destroyed) return;
    this.#open.add(socket);
    socket.once('close', () => this.#closed(socket));
  }

  watchChannel(channel: CountedChannel): void {
    this.#open.add(channel);
    void channel.ended.then(() => this.#closed(channel));
  }

  #closed(connection: Pick<CountedChannel, 'bytesRead' | 'bytesWritten'>): void {
    this.#open.delete(connection);
    this.#received += connection.bytesRead;
    this.#sent += connection.bytesWritten;
  }

  get received(): number {
    let sum = this.#received;
    for (const socket of this.#open) sum += socket.bytesRead;
    return sum;
  }

  get sent(): number {
    let sum = this.#sent;
    for (const socket of this.#open) sum += socket.bytesWritten;
    return sum;
  }
}
