/** A way to an agent that breaks: each of the first connections is cut after so many bytes in one direction. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface CuttingProxy {
  readonly address: string;
  /** How many connections were cut. */
  readonly cuts: () => number;
  readonly close: () => Promise<void>;
}

export async function cuttingProxy(
  target: string,
  { afterBytes, times, direction }: { afterBytes: number; times: number; direction: 'up' | 'down' },
): Promise<CuttingProxy> {
  const [host, port] = target.split(':');
  const sockets = new Set<Socket>();
  let cuts = 0;
  const server = createServer((near) => {
    const far = connect(Number(port), host);
    let moved = 0;
    const count = (chunk: Buffer) => {
      moved += chunk.byteLength;
      if (moved < afterBytes || cuts >= times) return;
      cuts++;
      near.destroy();
      // What has passed arrives; nothing after it does.
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
    cuts: () => cuts,
    close: () => {
      for (const socket of sockets) socket.destroy();
      return new Promise((done) => server.close(() => done()));
    },
  };
}
