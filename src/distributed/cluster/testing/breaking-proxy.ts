/** A proxy to an agent that breaks the first connections after a number of bytes in one direction. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface BreakingProxy {
  readonly address: string;
  /** The number of broken connections. */
  readonly breaks: () => number;
  readonly close: () => Promise<void>;
}

export async function breakingProxy(
  target: string,
  { afterBytes, times, direction }: { afterBytes: number; times: number; direction: 'up' | 'down' },
): Promise<BreakingProxy> {
  const [host, port] = target.split(':');
  const sockets = new Set<Socket>();
  let breaks = 0;
  const server = createServer((near) => {
    const far = connect(Number(port), host);
    let moved = 0;
    const count = (chunk: Buffer) => {
      moved += chunk.byteLength;
      if (moved < afterBytes || breaks >= times) return;
      breaks++;
      near.destroy();
      // The bytes forwarded so far arrive; nothing after them does.
      far.end();
      if (direction === 'down') far.destroy();
    };
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => sockets.delete(socket));
    }
    (direction === 'up' ? near : far).on('data', count);
    near.pipe(far);
    far.pipe(near);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    breaks: () => breaks,
    close: () => {
      for (const socket of sockets) socket.destroy();
      return new Promise((done) => server.close(() => done()));
    },
  };
}
