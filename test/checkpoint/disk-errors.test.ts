/** A disk that fails to read a copy: the other copies serve, and the bad one is replaced. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Checkpoints } from '../../src/checkpoint/checkpoints.js';
import type { Manifest } from '../../src/checkpoint/manifest.js';
import { fileBlob, manifestBlob } from '../../src/checkpoint/names.js';
import { replaceDamaged } from '../../src/checkpoint/replace-damaged.js';
import { isSound, verifyCheckpoint } from '../../src/checkpoint/verify.js';
import { Crew, PLACES } from './crew.js';

const KINDS = ['data-00000-of-00002', 'data-00001-of-00002', 'index', 'input', 'manifest'];
const INPUT = { epoch: 3, files: ['a', 'b'] };

let crew: Crew;
let chief: Checkpoints;
let second: Manifest;

beforeEach(async () => {
  crew = new Crew();
  chief = crew.chief();
  await crew.save(chief, 1);
  await crew.save(chief, 2, { input: () => INPUT });
  second = (await chief.list())[0]!;
  crew.log.length = 0;
  await crew.set(77);
});
afterEach(() => crew[Symbol.asyncDispose]());

const blobOf = (kind: string) =>
  kind === 'manifest' ? manifestBlob('job', second) : fileBlob('job', second, `model.ckpt-2.${kind}`);
const holdersOf = (blob: string) => PLACES.filter((place) => existsSync(crew.disks.path(place, blob)));
/** Who reads its own copy of it first. */
const readerOf = (kind: string) => /data-0000(\d)/.exec(kind)?.[1]?.replace(/^/, 'ps/') ?? 'chief/0';
const restore = () => chief.restoreNewest({ variables: crew.variables, readsInput: true });

describe.each(KINDS)('EIO from the own copy of the %s', (kind) => {
  it('when it is read: another copy serves, the bad one is logged and replaced', async () => {
    const [blob, place] = [blobOf(kind), readerOf(kind)];
    const { broken } = crew.disks.at(place);
    expect(holdersOf(blob)).toContain(place);
    broken.set(blob, 'read');
    expect(await restore()).toMatchObject({ manifest: second, input: INPUT });
    expect(await crew.step()).toBe(2);
    await expect.poll(() => broken.has(blob), { timeout: 120_000 }).toBe(false);
    expect(isSound(await verifyCheckpoint(crew.disks.store('chief/0'), 'job', second))).toBe(true);
    if (place !== 'chief/0') return;
    await expect
      .poll(() => crew.log.join('\n'))
      .toMatch(/passed over: EIO[\s\S]*damaged copy of .* at chief\/0 was replaced by that of /);
  });

  it('when it is looked for: another copy serves', async () => {
    crew.disks.at(readerOf(kind)).broken.set(blobOf(kind), 'look');
    expect(await restore()).toMatchObject({ manifest: second, input: INPUT });
    expect(await crew.step()).toBe(2);
  });

  it('and from all others: the checkpoint before is restored, and the log says why', async () => {
    const blob = blobOf(kind);
    for (const place of holdersOf(blob)) crew.disks.at(place).broken.set(blob, 'read');
    await restore();
    expect(await crew.step()).toBe(1);
    expect(crew.log.join('\n')).toMatch(/can not be restored: .*EIO/s);
  });
});

it('without a copy that is good from end to end, damaged ones are left as they are', async () => {
  const blob = blobOf('data-00000-of-00002');
  const { crc32c } = second.files.find(({ file }) => blob.endsWith(file))!;
  const places = holdersOf(blob);
  const damage = Buffer.from('of each a part may be good');
  for (const place of places) writeFileSync(crew.disks.path(place, blob), damage);
  const lines: string[] = [];
  await replaceDamaged(crew.disks.store('chief/0'), [{ blob, place: places[0]!, crc32c }], {
    log: (line) => lines.push(line),
  });
  expect(lines).toEqual([expect.stringMatching(/could not be replaced: no other copy is good/)]);
  for (const place of places) expect(readFileSync(crew.disks.path(place, blob))).toEqual(damage);
});

it('too many open files say nothing about a checkpoint: the restore fails, and goes back to none before', async () => {
  const exhausted = Object.assign(new Error('EMFILE: too many open files'), {
    code: 'EMFILE',
    syscall: 'open',
  });
  for (const { place } of crew.disks.all) {
    crew.disks.at(place).onRead = (name) => (name.includes('.index') ? Promise.reject(exhausted) : undefined);
  }
  crew.disks.at('chief/0').broken.set(blobOf('index'), 'read');
  // The own disk says EIO, all others that there are too many open files.
  await expect(restore()).rejects.toBe(exhausted);
  expect(await crew.step()).toBe(77);
});
