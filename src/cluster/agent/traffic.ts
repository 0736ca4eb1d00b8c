/** Counts the bytes of connections. Node counts them per connection; the sums are made when they are read. */
import type { Socket } from 'node:net';

export class Traffic {
  readonly #open = new Set<Socket>();
  #received = 0;
  #sent = 0;

  /** Counts the bytes of a connection from now on, once. */
  watch(socket: Socket): void {
    if (this.#open.has(socket) || socket.destroyed) return;
    this.#open.add(socket);
    socket.once('close', () => {
      this.#open.delete(socket);
      this.#received += socket.bytesRead;
      this.#sent += socket.bytesWritten;
    });
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
