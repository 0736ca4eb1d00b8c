/** What a serving process takes, for which of its models, and what it keeps. */
import { cp, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { openModelServer } from '../core/open-model-server.js';
import { type Host, PublishHosts, versionsOn } from '../testing/publish-hosts.js';
import { acceptVersions } from './accept-versions.js';
import { publish } from './publish.js';
import { Receiver } from './receiver.js';
import { rollBack } from './roll-back.js';

let hosts: PublishHosts;
beforeAll(async () => {
  hosts = await PublishHosts.create();
});
afterEach(() => hosts.close());
afterAll(() => hosts.remove());

const settled = (one: Host, model: string) =>
  expect
    .poll(() => one.serving.status()[model]?.map(({ state }) => state), { timeout: 10_000 })
    .not.toContain('UNLOADING');

test('a version that another model of the process serves is not removed', async () => {
  const base = hosts.newBase();
  const first = await hosts.host({ base });
  await publish({ directory: hosts.version(2), to: [first.address] });
  await hosts.close();
  const one = await hosts.host({
    base,
    models: { stable: { basePath: base, policy: { kind: 'specific', versions: [2] } }, canary: `${base}/` },
    publishKeep: 1,
  });
  for (const version of [3, 4, 5]) {
    await publish({ directory: hosts.version(3), version, to: [one.address], model: 'canary' });
    await settled(one, 'canary');
  }
  const left = await versionsOn(one);
  expect(left).toEqual(expect.arrayContaining(['1', '2', '5']));
  expect(left).not.toContain('3');
});

test('a base path takes one publication at a time, whatever model it is for', async () => {
  const base = hosts.newBase();
  const one = await hosts.host({ base, models: { a: base, b: base } });
  const first = await hosts.begin(one, { version: 5, content: 2, model: 'a' });
  expect(first.reply.outcome).toBe('open');
  expect((await hosts.begin(one, { version: 4, model: 'b' })).reply).toEqual({
    outcome: 'busy',
    by: 'another',
  });
  await first.prepare();
  await first.commit();
  expect((await hosts.begin(one, { version: 4, model: 'b' })).reply).toEqual({ outcome: 'older', newest: 5 });
});

test('a publication is refused at its end if the base path of the model has changed meanwhile', async () => {
  const bases = [hosts.newBase(), hosts.newBase()] as const;
  for (const base of bases) await cp(hosts.version(1), join(base, '1'), { recursive: true });
  const log = () => {};
  const server = await openModelServer({ models: [{ name: 'm', basePath: bases[0] }], pollMs: 100, log });
  hosts.onClose(() => server.close());
  const port = await acceptVersions(server.models, { port: 0, host: '127.0.0.1', log });
  hosts.onClose(() => port.close());
  const host = { address: `127.0.0.1:${port.port}` } as Host;
  const publisher = await hosts.begin(host, { version: 2 });
  await publisher.prepare();
  await server.reloadConfig([{ name: 'm', basePath: bases[1] }]);
  await expect(publisher.commit()).rejects.toThrow(/base path/);
  for (const base of bases) await expect.poll(() => readdir(base), { timeout: 10_000 }).toEqual(['1']);
});

test('a version below one that was copied there meanwhile is refused at its end', async () => {
  const one = await hosts.host();
  const publisher = await hosts.begin(one, { version: 2 });
  await publisher.prepare();
  await cp(hosts.version(3), join(one.base, '3'), { recursive: true });
  await expect(publisher.commit()).rejects.toThrow(/version 3, which is newer than 2/);
  expect(await versionsOn(one)).toEqual(['1', '3']);
});

test('the name of a publisher has no line breaks', async () => {
  const one = await hosts.host();
  const forged = hosts.begin(one, { version: 2, by: 'me\nhalf version 99 was published by root' });
  await expect(forged).rejects.toMatchObject({ code: 'SHOAL_INVALID_ARGUMENT' });
  expect(one.lines.join('\n')).not.toContain('99');
});

test('a publication that begins while the server closes leaves nothing', async () => {
  const base = hosts.newBase();
  await cp(hosts.version(1), join(base, '1'), { recursive: true });
  const server = await openModelServer({ models: [{ name: 'm', basePath: base }], log: () => {} });
  hosts.onClose(() => server.close());
  const receiver = await Receiver.open({ models: server.models, keep: 3, log: () => {} });
  const { digest, files } = await hosts.manifest(2);
  const begun = receiver.begin({ kind: 'publish', by: 'test', version: 2, digest, files: [...files] });
  const closed = receiver.close();
  await expect(begun).rejects.toThrow(/stopping/);
  await closed;
  expect(await readdir(base)).toEqual(['1']);
});

test('a rollback of a version that is not the newest is refused', async () => {
  const one = await hosts.host();
  for (const version of [2, 3]) await publish({ directory: hosts.version(version), to: [one.address] });
  const { target } = await hosts.begin(one, { version: 3 });
  const back = (from: number, to: number) => target.begin({ kind: 'rollback', by: 'test', from, to });
  expect(await back(2, 1)).toEqual({ outcome: 'older', newest: 3 });
  await expect(back(4, 1)).rejects.toThrow(/version 3/);
  expect((await rollBack({ to: [one.address] })).version).toBe(2);
  expect(await back(3, 2)).toEqual({ outcome: 'has' });
});
