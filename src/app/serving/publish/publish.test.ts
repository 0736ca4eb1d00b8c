/** Publishing to several servers: all or none, once, and back. */

import { appendFile, cp, readdir } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { initCerts, issueCert } from '../../../distributed/cluster/spec/certs.js';
import { loadTls, tokenSecurity } from '../../../distributed/cluster/spec/security.js';
import { taskId } from '../../../distributed/cluster/spec/task-id.js';
import { answerOf, type Host, type HostChanges, PublishHosts, stagedOn } from '../testing/publish-hosts.js';
import { digestOf } from './manifest.js';
import { publish } from './publish.js';
import { rollBack } from './roll-back.js';
import { PREFIX } from './wire.js';

let hosts: PublishHosts;
let root: string;
let made: string;
const host = (changes?: HostChanges) => hosts.host(changes);
const version = (number: number) => hosts.version(number);

beforeAll(async () => {
  hosts = await PublishHosts.create();
  ({ root, made } = hosts);
});
afterEach(() => hosts.close());
afterAll(() => hosts.remove());

const answers = (all: readonly Host[]) => Promise.all(all.map((one) => answerOf(one)));
const addressesOf = (all: readonly Host[]) => all.map(({ address }) => address);

test('a version is sent to all, loaded and switched; the same again changes nothing; another content is refused', async () => {
  const all = [await host(), await host()];
  const to = addressesOf(all);
  const phases = new Set<string>();
  const { targets } = await publish({
    directory: version(2),
    to,
    onProgress: ({ phase }) => phases.add(phase),
  });
  expect(targets.map(({ outcome }) => outcome.kind)).toEqual(['done', 'done']);
  expect([...phases]).toEqual(['sending', 'loading', 'prepared', 'committing']);
  expect(await answers(all)).toEqual([2, 2]);

  const again = await publish({ directory: made, version: 2, to });
  expect(again.targets.map(({ outcome }) => outcome)).toEqual(
    to.map(() => ({ kind: 'settled', why: 'has' })),
  );
  await expect(publish({ directory: version(3), version: 2, to })).rejects.toThrow(/has another version 2/);
  await expect(publish({ directory: version(1), version: 0, to })).rejects.toThrow(
    /version 2, which is newer than 0/,
  );
  expect(await answers(all)).toEqual([2, 2]);
  expect(await Promise.all(all.map(stagedOn))).toEqual([[], []]);
});

test('if one server cannot load a version, none switches, and nothing of it remains', async () => {
  const all = [await host(), await host({ tags: ['gpu'] }), await host()];
  const attempt = publish({ directory: version(2), to: addressesOf(all), deadlineSecs: 60 });
  await expect(attempt).rejects.toThrow(`${all[1]?.address}: `);
  expect(await answerOf(all[0] as Host)).toBe(1);
  expect(await answerOf(all[2] as Host)).toBe(1);
  for (const one of all) expect((await readdir(one.base)).sort()).toEqual(['1']);
});

test('a server that does not answer: nothing changes until it does; or the others change without it', async () => {
  const up = await host();
  const down = await unusedAddress();
  const to = [up.address, down];
  await expect(publish({ directory: version(2), to, deadlineSecs: 1 })).rejects.toThrow(down);
  expect(await answerOf(up)).toBe(1);
  const { targets } = await publish({ directory: version(2), to, skipsAbsent: true });
  expect(targets.map(({ outcome }) => outcome.kind)).toEqual(['done', 'absent']);
  expect(await answerOf(up)).toBe(2);
});

test('ranges that are damaged or cut on the way are sent again; damage that stays is found', async () => {
  const one = await host();
  const flipping = await disturbingProxy(one.address, 3);
  const { targets } = await publish({ directory: version(2), to: [flipping.address] });
  expect(flipping.disturbed()).toBe(3);
  expect(targets[0]?.outcome.kind).toBe('done');
  expect(await answerOf(one)).toBe(2);

  const always = await disturbingProxy(one.address, Number.POSITIVE_INFINITY);
  await expect(publish({ directory: version(3), to: [always.address], deadlineSecs: 30 })).rejects.toThrow(
    /damaged on the way|closed the connection/,
  );
  expect(await answerOf(one)).toBe(2);
});

test('a rollback holds against polling and a restart until a newer version is published', async () => {
  const all = [await host(), await host()];
  const to = addressesOf(all);
  for (const number of [2, 3]) await publish({ directory: version(number), to });
  expect((await rollBack({ to })).version).toBe(2);
  expect(await answers(all)).toEqual([2, 2]);
  // Several polls.
  await new Promise((tick) => setTimeout(tick, 500));
  expect(await answers(all)).toEqual([2, 2]);
  await expect(publish({ directory: version(3), to })).rejects.toThrow(/was rolled back/);
  const left = await publish({ directory: version(3), to, leavesNewer: true });
  expect(left.targets.map(({ outcome }) => outcome)).toEqual(
    to.map(() => ({ kind: 'settled', why: 'withdrawn' })),
  );

  const [first] = all as [Host];
  await first.serving.close();
  const restarted = await host({ base: first.base });
  expect(await answerOf(restarted)).toBe(2);
  const now = [restarted, all[1] as Host];
  await publish({ directory: version(4), to: addressesOf(now) });
  expect(await answers(now)).toEqual([4, 4]);
  expect((await rollBack({ to: addressesOf(now) })).version).toBe(2);
  expect(await answers(now)).toEqual([2, 2]);
});

test('old published versions are removed from the disk; one that was there before is not', async () => {
  const one = await host({ publishKeep: 1 });
  for (const number of [2, 3, 4]) {
    await publish({ directory: version(number), to: [one.address] });
    await expect.poll(() => statesOf(one), { timeout: 10_000 }).not.toContain('UNLOADING');
  }
  const versions = (await readdir(one.base)).filter((name) => /^\d+$/.test(name)).sort();
  // Version 3 was still in use when version 4 came.
  expect(versions).toEqual(expect.arrayContaining(['1', '4']));
  expect(versions).not.toContain('2');
});

test('two publishers at a time: one after the other, and all servers end with the newer version', async () => {
  const all = [await host(), await host()];
  const to = addressesOf(all);
  const results = await Promise.allSettled([
    publish({ directory: version(2), to, deadlineSecs: 60 }),
    publish({ directory: version(3), to: [...to].reverse(), deadlineSecs: 60 }),
  ]);
  expect(results[1]).toMatchObject({ status: 'fulfilled' });
  expect(await answers(all)).toEqual([3, 3]);
});

test('only holders of the token publish; paths cannot leave the directory', async () => {
  const token = 'a-token-of-publishers-0123456789';
  const one = await host({ publishToken: token });
  const to = [one.address];
  await expect(publish({ directory: version(2), to })).rejects.toMatchObject({ code: 'SHOAL_FORBIDDEN' });
  const wrong = tokenSecurity(`${token}x`);
  await expect(publish({ directory: version(2), to, security: wrong })).rejects.toMatchObject({
    code: 'SHOAL_FORBIDDEN',
  });
  for (const path of ['../../escaped', '/etc/escaped', 'a/../../b', 'a\\..\\b', 'a//b', '.', 'a\0b']) {
    const files = [{ path, bytes: 1, crc32c: 0 }];
    const response = await fetch(`http://${one.address}${PREFIX}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify({ kind: 'publish', by: 'test', version: 9, digest: digestOf(files), files }),
    });
    expect([path, response.status]).toEqual([path, 400]);
  }
  await publish({ directory: version(2), to, security: tokenSecurity(token) });
  expect(await answerOf(one)).toBe(2);
});

test('with certificates an operator, a chief and worker 0 publish; a ps and a worker do not', async () => {
  const certs = join(root, 'certs');
  await initCerts({ dir: certs });
  for (const bearer of ['serving', 'operator', 'ps', 'chief', 'worker', taskId('worker', 0)])
    await issueCert({ dir: certs, bearer });
  const one = await host({ publishCerts: certs });
  const as = (bearer: Parameters<typeof loadTls>[1], number: number) =>
    publish({
      directory: version(number),
      to: [one.address],
      security: loadTls(certs, bearer),
      deadlineSecs: 30,
    });
  for (const task of [taskId('ps', 0), taskId('worker', 1)])
    await expect(as(task, 2)).rejects.toMatchObject({ code: 'SHOAL_FORBIDDEN' });
  await expect(publish({ directory: version(2), to: [one.address], deadlineSecs: 1 })).rejects.toThrow();
  expect(await answerOf(one)).toBe(1);
  await as('operator', 2);
  await as(taskId('chief', 0), 3);
  await as(taskId('worker', 0), 4);
  expect(await answerOf(one)).toBe(4);
});

test('a version that does not fit on the disk is refused before it is sent', async () => {
  const one = await host();
  const files = [{ path: 'saved_model.pb', bytes: 2 ** 50, crc32c: 0 }];
  const response = await fetch(`http://${one.address}${PREFIX}`, {
    method: 'POST',
    body: JSON.stringify({ kind: 'publish', by: 'test', version: 9, digest: digestOf(files), files }),
  });
  expect(response.status).toBe(507);
  expect(await stagedOn(one)).toEqual([]);
});

test('Ctrl-C before the switch changes nothing', async () => {
  const one = await host();
  const large = join(root, 'large', '5');
  await cp(version(2), large, { recursive: true });
  await appendFile(join(large, 'padding'), Buffer.alloc(32 << 20));
  const stop = new AbortController();
  const attempt = publish({
    directory: large,
    to: [one.address],
    signal: stop.signal,
    onProgress: ({ sentBytes }) => sentBytes > 0 && stop.abort(),
  });
  await expect(attempt).rejects.toMatchObject({ code: 'SHOAL_ABORTED' });
  expect(await answerOf(one)).toBe(1);
  await expect.poll(() => stagedOn(one)).toEqual([]);
});

const statesOf = ({ serving }: Host) => (serving.status().half ?? []).map(({ state }) => state);

async function listening(server: Server): Promise<string> {
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return `127.0.0.1:${address.port}`;
}

async function unusedAddress(): Promise<string> {
  const server = createServer();
  const address = await listening(server);
  await new Promise((done) => server.close(done));
  return address;
}

/** Of the requests with a range, the first `times` have a flipped byte or are cut, in turns. */
async function disturbingProxy(
  address: string,
  times: number,
): Promise<{ readonly address: string; readonly disturbed: () => number }> {
  const [name, port] = address.split(':');
  const sockets = new Set<Socket>();
  let disturbed = 0;
  const server = createServer((near) => {
    const far = connect(Number(port), name);
    let isBody = false;
    near.on('data', (chunk: Buffer) => {
      if (chunk.includes('PUT ')) isBody = true;
      const at = chunk.indexOf('\r\n\r\n') + 4;
      if (isBody && disturbed < times && at < chunk.byteLength) {
        disturbed++;
        isBody = false;
        if (disturbed % 2 === 0) {
          near.destroy();
          far.destroy();
          return;
        }
        chunk[chunk.byteLength - 1]! ^= 1;
      }
      far.write(chunk);
    });
    far.pipe(near);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
  });
  const own = await listening(server);
  hosts.onClose(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((done) => server.close(done));
  });
  return { address: own, disturbed: () => disturbed };
}
