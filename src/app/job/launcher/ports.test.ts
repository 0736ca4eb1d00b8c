import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { choosePorts } from './ports.js';

/** Returns the given numbers in order, then repeats the last. */
const draws = (...values: readonly number[]) => {
  let at = 0;
  return () => values[Math.min(at++, values.length - 1)]!;
};

test('ports are distinct, and below the ephemeral range', async () => {
  const ports = await choosePorts('127.0.0.1', 20);
  expect(new Set(ports).size).toBe(20);
  for (const port of ports) {
    expect(port).toBeGreaterThanOrEqual(20_000);
    expect(port).toBeLessThan(32_768);
  }
});

test('skips a port that is in use or to be avoided', async () => {
  const [taken, avoided] = await choosePorts('127.0.0.1', 2);
  const share = (port: number) => (port - 20_000) / 12_768 + 1e-6;
  const server = createServer();
  await new Promise<void>((done) => server.listen(taken, '127.0.0.1', done));
  try {
    const random = draws(share(taken!), share(avoided!), 0.25, 0.75, Math.random());
    const [port] = await choosePorts('127.0.0.1', 1, { random, avoid: [avoided!] });
    expect([taken, avoided]).not.toContain(port);
  } finally {
    server.close();
  }
});

test('lets the system choose if every drawn port is in use', async () => {
  const [first] = await choosePorts('127.0.0.1', 1);
  const always = () => (first! - 20_000) / 12_768 + 1e-6;
  const [one, other] = await choosePorts('127.0.0.1', 2, { random: always });
  expect(one).not.toBe(other);
});

test('refuses an address of another machine', async () => {
  await expect(choosePorts('192.0.2.1', 1)).rejects.toThrow('cannot listen on 192.0.2.1');
});
