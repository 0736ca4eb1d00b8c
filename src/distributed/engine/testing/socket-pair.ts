/** Two connected sockets of this process. */
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

export interface SocketPair {
  readonly client: Socket;
  readonly server: Socket;
}

/** Makes pairs of sockets on loopback until it is closed. */
export class SocketPairs {
  readonly #server: Server;
  readonly #open: Socket[] = [];

  private constructor(server: Server) {
    this.#server = server;
  }

  static async listen(): Promise<SocketPairs> {
    const server = createServer({ noDelay: true }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new SocketPairs(server);
  }

  async pair(): Promise<SocketPair> {
    const { port } = this.#server.address() as { port: number };
    const accepted = once(this.#server, 'connection');
    const client = connect({ port, host: '127.0.0.1', noDelay: true });
    const [[server]] = (await Promise.all([accepted, once(client, 'connect')])) as [[Socket], unknown];
    this.#open.push(client, server);
    return { client, server };
  }

  async close(): Promise<void> {
    for (const socket of this.#open) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }
}
