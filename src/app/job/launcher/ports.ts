/**
 * Ports for the agents of a local cluster. The cluster specification contains every address before any task listens, so
 * a port is chosen by binding it, and released for the task to bind. Two measures against a race for the port:
 * - ports are below the ephemeral range, so the system does not assign them to connections or to servers on port 0;
 * - a task whose port is in use nevertheless exits with 75, and is restarted at another port.
 */
import { type AddressInfo, createServer, type Server } from 'node:net';
import { messageOf, ShoalError } from '../../../base/errors/errors.js';

/** The ephemeral range starts at 32768 on Linux and at 49152 on macOS. */
const LOWEST = 20_000;
const HIGHEST = 32_767;
const DRAWS = 32;

/** Chooses `count` distinct ports that are not in use. */
export async function choosePorts(
  host: string,
  count: number,
  { random = Math.random, avoid = [] }: { random?: () => number; avoid?: readonly number[] } = {},
): Promise<number[]> {
  const held: Server[] = [];
  try {
    // All are held until the last is found, so no port is chosen twice.
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
    hint: 'pass an address of this machine: --host 127.0.0.1',
    cause,
  });
}
