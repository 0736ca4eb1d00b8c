/** Changes that wait: for another publication, for a target that is away, for other uploads. */
import { cp, writeFile } from 'node:fs/promises';
import { createServer, connect as open } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { answerOf, type Host, PublishHosts } from '../testing/publish-hosts.js';
import { publish } from './publish.js';
import { rollBack } from './roll-back.js';
import { PREFIX, RANGE_BYTES } from './wire.js';

let hosts: PublishHosts;
beforeAll(async () => {
  hosts = await PublishHosts.create();
});
afterEach(() => hosts.close());
afterAll(() => hosts.remove());

const pause = (ms: number) => new Promise((tick) => setTimeout(tick, ms));

test('a rollback that waited for a publication takes back the version that was published meanwhile', async () => {
  const one = await hosts.host();
  await publish({ directory: hosts.version(2), to: [one.address] });
  const publisher = await hosts.begin(one, { version: 3 });
  const back = rollBack({ to: [one.address], deadlineSecs: 30 });
  await pause(500);
  await publisher.prepare();
  await publisher.commit();
  expect(await answerOf(one)).toBe(3);
  expect((await back).version).toBe(2);
  expect(await answerOf(one)).toBe(2);
});

test('slow uploads of one model hold up its own publication only', async () => {
  const [a, b] = [hosts.newBase(), hosts.newBase()];
  for (const base of [a, b]) await cp(hosts.version(1), join(base, '1'), { recursive: true });
  const one = await hosts.host({ base: b, models: { a, b } });
  const slow = await hosts.begin(one, { version: 2, model: 'a' });
  const sockets = upload(one, slow.id, slow.manifest.files[0]?.bytes ?? 0, 8);
  await pause(200);
  const { targets } = await publish({
    directory: hosts.version(2),
    model: 'b',
    to: [one.address],
    deadlineSecs: 40,
  });
  expect(targets[0]?.outcome.kind).toBe('done');
  for (const socket of sockets) socket.destroy();
});

test('ranges that a busy server refuses are sent again until the deadline', async () => {
  const one = await hosts.host();
  // Ranges that do not fit into the buffers of a connection.
  await cp(hosts.version(2), hosts.version(9), { recursive: true });
  await writeFile(join(hosts.version(9), 'padding'), Buffer.alloc(24 << 20));
  const publisher = await hosts.begin(one, { version: 9 });
  const sockets = upload(one, publisher.id, publisher.manifest.files[0]?.bytes ?? 0, 8);
  await pause(200);
  const prepared = publisher.prepare();
  // Longer than the retries of a range after an error of the network take.
  await pause(5000);
  for (const socket of sockets) socket.destroy();
  await prepared;
  await publisher.commit();
  expect(await answerOf(one)).toBe(2);
});

test('while one target is away, the others are asked again only when it answers', async () => {
  const up = await hosts.host();
  const port = await freePort();
  const waiting: string[] = [];
  const publishing = publish({
    directory: hosts.version(2),
    to: [up.address, `127.0.0.1:${port}`],
    deadlineSecs: 60,
    onProgress: ({ address, phase }) => phase === 'waiting' && waiting.push(address),
  });
  await expect.poll(() => waiting.length, { timeout: 20_000 }).toBeGreaterThan(3);
  expect(new Set(waiting)).toEqual(new Set([`127.0.0.1:${port}`]));
  expect(up.lines.filter((line) => line.includes('changed nothing')).length).toBeLessThan(2);
  const returned = await hosts.host({ publishPort: port });
  await publishing;
  expect([await answerOf(up), await answerOf(returned)]).toEqual([2, 2]);
});

/** Begins requests with a range and sends one byte of each. */
function upload({ serving }: Host, id: string, bytes: number, count: number) {
  const sockets = Array.from({ length: count }, () => {
    const socket = open(serving.publishPort as number, '127.0.0.1');
    socket.on('error', () => {});
    socket.write(
      `PUT ${PREFIX}/${id}/range?file=0&offset=0&crc32c=1 HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: ${Math.min(bytes, RANGE_BYTES)}\r\n\r\nx`,
    );
    return socket;
  });
  hosts.onClose(async () => {
    for (const socket of sockets) socket.destroy();
  });
  return sockets;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as { port: number };
  await new Promise((done) => server.close(done));
  return port;
}
