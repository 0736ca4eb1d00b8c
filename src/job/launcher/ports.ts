/**
 * Ports for the agents of a local cluster. The specification names every address before any task listens, so
 * a port is chosen by binding it, and let go again for the task to bind. Two things keep the gap harmless:
 * - ports are drawn below the range from which systems hand out ports on their own, so that no connection
 *   and no server on port 0 is given one of them meanwhile;
 * - a task that finds its port taken all the same exits with 75, and is started again at another.
 */
import { type AddressInfo, createServer, type Server } from 'node:net';
import { messageOf, ShoalError } from '../../errors/errors.js';

/** Linux hands out ports from 32768 on, macOS from 49152 on. */
const LOWEST = 20_000;
const HIGHEST = 32_767;
const DRAWS = 32;

/** So many different ports that nobody listens on at the moment. */
export async function choosePorts(
  host: string,
  count: number,
  { random = Math.random, avoid = [] }: { random?: () => number; avoid?: readonly number[] } = {},
): Promise<number[]> {
  const held: Server[] = [];
  try {
    // All are held until the last is found: no port can come out twice.
    while (held.length < count) held.push(await hold(host, random, avoid));
    return held.map((server) => (server.address() as AddressInfo).port);
  } finally {
    await Promise.all(held.map((server) => new Promise((done) => server.close(done))));
  }
}

async function hold(host: string, random: () => number, avoid: readonly number[]): Promise<Server> {
  for (let draw = 0; draw < DRAWS; draw++) {
    const port = LOWEST + Math.floor(random() * (HIGHEST - LOWEST + 1));
    if (avoid.includes(port)) continue;
    const server = await bind(host, port).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE' || error.code === 'EACCES') return undefined;
      throw unusable(host, error);
    });
    if (server !== undefined) return server;
  }
  return bind(host, 0).catch((error: unknown) => {
    throw unusable(host, error);
  });
}

function bind(host: string, port: number): Promise<Server> {
  return new Promise((done, fail) => {
    const server = createServer();
    server.once('error', fail);
    server.listen({ host, port, exclusive: true }, () => done(server));
  });
}

function unusable(host: string, cause: unknown): ShoalError {
  return new ShoalError('SHOAL_CONFIG', `cannot listen on ${host}: ${messageOf(cause)}`, {
    hint: 'name an address of this machine: --host 127.0.0.1',
    cause,
  });
}
