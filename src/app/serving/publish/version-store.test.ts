/** What a serving machine believes of the versions on its disk, and what it removes. */
import { cp, mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { answerOf, PublishHosts, stagedOn, versionsOn } from '../testing/publish-hosts.js';
import { publish } from './publish.js';
import { rollBack } from './roll-back.js';

let hosts: PublishHosts;
beforeAll(async () => {
  hosts = await PublishHosts.create();
});
afterEach(() => hosts.close());
afterAll(() => hosts.remove());

const copy = (from: number, base: string, name: string) =>
  cp(hosts.version(from), join(base, name), { recursive: true });

test('a version that appears by a copy during its publication is neither the published one nor removed', async () => {
  const one = await hosts.host();
  const publisher = await hosts.begin(one, { version: 2 });
  await publisher.prepare();
  await copy(3, one.base, '2');
  await expect(publisher.commit()).rejects.toThrow(/exists/);
  await expect.poll(() => answerOf(one), { timeout: 10_000 }).toBe(3);
  expect(await readdir(one.base)).not.toContain('.2.published');
  await expect(publish({ directory: hosts.version(2), to: [one.address] })).rejects.toThrow(
    /has another version 2/,
  );

  await hosts.close();
  const keepsOne = await hosts.host({ base: one.base, publishKeep: 1 });
  for (const version of [3, 4, 5]) {
    await publish({ directory: hosts.version(3), version, to: [keepsOne.address] });
    await expect
      .poll(() => keepsOne.serving.status().half?.map(({ state }) => state), { timeout: 10_000 })
      .not.toContain('UNLOADING');
  }
  const left = await versionsOn(keepsOne);
  expect(left).toEqual(expect.arrayContaining(['1', '2', '5']));
  expect(left).not.toContain('3');
});

test('a published version whose directory or files were replaced by hand is not the published one', async () => {
  const one = await hosts.host();
  for (const version of [2, 3]) await publish({ directory: hosts.version(version), to: [one.address] });
  await hosts.close();
  await rm(join(one.base, '2'), { recursive: true });
  await copy(4, one.base, '2');
  // In place: the directory stays the same one.
  for (const name of await readdir(join(one.base, '3')))
    await rm(join(one.base, '3', name), { recursive: true });
  await cp(hosts.version(4), join(one.base, '3'), { recursive: true });

  const again = await hosts.host({ base: one.base, publishKeep: 1 });
  for (const version of [2, 3])
    await expect(publish({ directory: hosts.version(version), to: [again.address] })).rejects.toThrow(
      `has another version ${version}`,
    );
  for (const version of [4, 5]) await publish({ directory: hosts.version(4), version, to: [again.address] });
  expect(await versionsOn(again)).toEqual(expect.arrayContaining(['1', '2', '3', '5']));
});

test('a version that was removed by hand leaves no marker after a restart', async () => {
  const one = await hosts.host();
  await publish({ directory: hosts.version(2), to: [one.address] });
  await hosts.close();
  expect(await readdir(one.base)).toContain('.2.published');
  await rm(join(one.base, '2'), { recursive: true });
  const again = await hosts.host({ base: one.base });
  expect((await readdir(again.base)).sort()).toEqual(['1']);
});

test('a disk that is full at the switch is reported as such, and nothing remains', async () => {
  const one = await hosts.host();
  const publisher = await hosts.begin(one, { version: 2 });
  await publisher.prepare();
  await symlink('/dev/full', join(one.base, '.2.published'));
  await expect(publisher.commit()).rejects.toMatchObject({ code: 'SHOAL_NO_SPACE' });
  await expect.poll(() => readdir(one.base), { timeout: 10_000 }).toEqual(['1']);
  expect(await answerOf(one)).toBe(1);
});

test('links to the assets of removed versions are removed', async () => {
  const one = await hosts.host({ publishKeep: 1 });
  const source = join(hosts.root, 'assets', '2');
  await cp(hosts.version(2), source, { recursive: true });
  await mkdir(join(source, 'assets'));
  await writeFile(join(source, 'assets', 'words.txt'), 'one');
  for (const version of [2, 3, 4, 5]) {
    await publish({ directory: source, version, to: [one.address] });
    await expect
      .poll(() => one.serving.status().half?.map(({ state }) => state), { timeout: 10_000 })
      .not.toContain('UNLOADING');
  }
  const linked = async () => (await stagedOn(one)).map((name) => /^\.(\d+)\.tmp-/.exec(name)?.[1]);
  const dangling = async () => {
    const versions = await versionsOn(one);
    return (await linked()).filter((version) => !versions.includes(version as string));
  };
  await expect.poll(dangling, { timeout: 10_000 }).toEqual([]);
  expect(await linked()).toContain('5');
});

test('versions of sixteen digits are published by their name and rolled back', async () => {
  const one = await hosts.host();
  const version = 1_763_572_000_000_000;
  const directory = join(hosts.root, 'micros', String(version));
  await cp(hosts.version(2), directory, { recursive: true });
  await publish({ directory, to: [one.address] });
  expect(await answerOf(one)).toBe(2);
  expect((await rollBack({ to: [one.address] })).version).toBe(1);
  expect(await answerOf(one)).toBe(1);
  await expect(publish({ directory, to: [one.address] })).rejects.toThrow(/was rolled back/);
});

test('versions with leading zeros serve, are compared and are rolled back to', async () => {
  const base = hosts.newBase();
  await mkdir(base, { recursive: true });
  await copy(1, base, '0001');
  const one = await hosts.host({ base });
  await expect.poll(() => answerOf(one).catch(() => undefined), { timeout: 10_000 }).toBe(1);
  const to = [one.address];
  const again = await publish({ directory: base, to });
  expect(again.targets[0]?.outcome).toEqual({ kind: 'settled', why: 'has' });
  await expect(publish({ directory: hosts.version(2), version: 1, to })).rejects.toThrow(
    /has another version 1/,
  );
  await publish({ directory: hosts.version(2), to });
  await rollBack({ to });
  expect(await answerOf(one)).toBe(1);
  expect(await readdir(base)).toEqual(expect.arrayContaining(['0001', '.2.withdrawn']));
});
