/** An export appears completely or not at all, and a published export is never overwritten. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { owner, Staging } from './staging.js';

let root: string;
let target: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'shoal-staging-'));
  target = join(root, '7');
});
afterEach(() => rm(root, { recursive: true, force: true }));

const host = owner();

/** The id of a process that has ended. */
async function endedProcess(): Promise<number> {
  const child = spawn(process.execPath, ['-e', '']);
  await once(child, 'exit');
  return child.pid!;
}

test('an export appears with one rename', async () => {
  const staging = await Staging.open(target);
  await writeFile(join(await staging.folder('assets'), 'a'), 'x');
  expect((await readdir(root)).filter((name) => !name.startsWith('.'))).toEqual([]);
  expect(await staging.publish()).toBe(target);
  expect(await readdir(root)).toEqual(['7']);
  expect(await readdir(target)).toEqual(['assets']);
});

test('an existing version fails the start, one that appears meanwhile fails the end', async () => {
  const staging = await Staging.open(target);
  const other = await Staging.open(target);
  await other.folder('mine');
  await other.publish();
  await expect(staging.publish()).rejects.toMatchObject({ code: 'SHOAL_ALREADY_EXISTS' });
  await staging.discard();
  await expect(Staging.open(target)).rejects.toMatchObject({ code: 'SHOAL_ALREADY_EXISTS' });
  expect(await readdir(target)).toEqual(['mine']);
  expect(await readdir(root)).toEqual(['7']);
  await writeFile(join(root, '8'), 'a file');
  await expect(Staging.open(join(root, '8'))).rejects.toMatchObject({ code: 'SHOAL_ALREADY_EXISTS' });
});

test('an empty directory is replaced', async () => {
  await mkdir(target);
  const staging = await Staging.open(target);
  await staging.folder('variables');
  await staging.publish();
  expect(await readdir(target)).toEqual(['variables']);
});

test('the next export removes the leftovers of killed ones, and nothing else', async () => {
  const dead = `.7.tmp-${host}-${await endedProcess()}-0123456789ab`;
  const own = `.7.tmp-${host}-${process.pid}-0123456789ab`;
  const alive = `.7.tmp-${host}-${process.ppid}-0123456789ab`;
  const elsewhere = '.7.tmp-another.host-1-0123456789ab';
  // A running exporter in a container with the same host name: its process id means nothing here.
  const container = `.7.tmp-${host.slice(0, -1)}x-${await endedProcess()}-0123456789ab`;
  const old = '.7.tmp-another.host-2-0123456789ab';
  const others = ['.8.tmp-x', '.7.tmp-notes', `.77.tmp-${host}-1-0123456789ab`];
  for (const name of [dead, own, alive, elsewhere, container, old, ...others]) await mkdir(join(root, name));
  const yesterday = new Date(Date.now() - 25 * 60 * 60 * 1000);
  await utimes(join(root, old), yesterday, yesterday);
  const running = await Staging.open(target);
  const staging = await Staging.open(target);
  const left = await readdir(root);
  expect(left).not.toContain(dead);
  expect(left).not.toContain(own);
  expect(left).not.toContain(old);
  for (const name of [alive, elsewhere, container, ...others]) expect(left).toContain(name);
  expect(left).toContain(running.directory.slice(root.length + 1));
  await running.discard();
  await staging.discard();
  expect((await readdir(root)).sort()).toEqual([alive, elsewhere, container, ...others].sort());
});
