/** Damage of every kind to every file of a checkpoint: a restore gives one checkpoint whole, or says why not. */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Checkpoints } from '../../src/checkpoint/checkpoints.js';
import type { Manifest } from '../../src/checkpoint/manifest.js';
import { fileBlob, manifestBlob } from '../../src/checkpoint/names.js';
import { ShoalError } from '../../src/errors/errors.js';
import { Crew, PLACES } from './crew.js';

let crew: Crew;
let chief: Checkpoints;
let second: Manifest;
/** The blobs of the second checkpoint, and who holds each. */
let blobs: readonly { readonly kind: string; readonly name: string; readonly places: readonly string[] }[];

beforeAll(async () => {
  crew = new Crew();
  chief = crew.chief();
  await crew.save(chief, 1);
  second = await crew.save(chief, 2);
  const names = [
    ...second.files.map(({ file }) => fileBlob('job', second, file)),
    manifestBlob('job', second),
  ];
  blobs = names.map((name) => ({
    kind: /\.json$/.test(name) ? 'manifest' : /\.(index|meta|data-0000\d)/.exec(name)![1]!,
    name,
    places: PLACES.filter((place) => existsSync(crew.disks.path(place, name))),
  }));
});
afterAll(() => crew[Symbol.asyncDispose]());

const KINDS = ['data-00000', 'data-00001', 'index', 'meta', 'manifest'];

const DAMAGES: Record<string, (bytes: Buffer) => Buffer | undefined> = {
  'the first bit flipped': (bytes) => flipped(bytes, 0),
  'a bit in the middle flipped': (bytes) => flipped(bytes, bytes.length >> 1),
  'the last bit flipped': (bytes) => flipped(bytes, bytes.length - 1),
  'the last byte cut off': (bytes) => bytes.subarray(0, -1),
  'its first half left': (bytes) => bytes.subarray(0, bytes.length >> 1),
  'nothing in it': () => Buffer.alloc(0),
  'zeros in it': (bytes) => Buffer.alloc(bytes.length),
  'more behind it': (bytes) => Buffer.concat([bytes, bytes]),
  'no file at all': () => undefined,
};

function flipped(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[at]! ^= 0x40;
  return copy;
}

/** Damages the copies at those places, looks what a restore gives, and mends them. */
async function restoredWith(
  name: string,
  places: readonly string[],
  damage: (bytes: Buffer) => Buffer | undefined,
) {
  const paths = places.map((place) => crew.disks.path(place, name));
  const good = paths.map((path) => readFileSync(path));
  crew.log.length = 0;
  await crew.set(77);
  try {
    paths.forEach((path, i) => {
      const bad = damage(good[i]!);
      if (bad === undefined) rmSync(path);
      else writeFileSync(path, bad);
    });
    await chief.restoreNewest({ variables: crew.variables });
    return { step: await crew.step(), log: crew.log.join('\n') };
  } finally {
    paths.forEach((path, i) => {
      writeFileSync(path, good[i]!);
    });
  }
}

describe.each(KINDS)('the %s of the newest checkpoint', (kind) => {
  it.each(Object.keys(DAMAGES))('in one copy, whichever, with %s: the other copies serve', async (how) => {
    const { name, places } = blobs.find((blob) => blob.kind === kind)!;
    expect(places.length).toBeGreaterThan(1);
    for (const place of places) {
      const { step } = await restoredWith(name, [place], DAMAGES[how]!);
      expect(step, place).toBe(2);
    }
  });

  it.each(Object.keys(DAMAGES))(
    'in all copies with %s: never torn, never quietly another one',
    async (how) => {
      const { name, places } = blobs.find((blob) => blob.kind === kind)!;
      const { step, log } = await restoredWith(name, places, DAMAGES[how]!);
      // No value comes from the graph, and bytes behind the end of a data file belong to nobody.
      const isHarmless = kind === 'meta' || (how === 'more behind it' && kind !== 'manifest');
      if (step === 2) expect(isHarmless).toBe(true);
      else {
        expect(step).toBe(1);
        // A manifest that is not there at all leaves no trace: that is how a checkpoint is removed.
        if (!(kind === 'manifest' && how === 'no file at all')) expect(log).toMatch(/model\.ckpt-2|manifest/);
      }
    },
  );
});

it('a place that gives other bytes of the right number is passed over for another, and told of', async () => {
  for (const { place } of crew.disks.all) {
    crew.log.length = 0;
    await crew.set(77);
    crew.disks.at(place).lies = (bytes) => Buffer.alloc(bytes.byteLength, 3);
    await chief.restoreNewest({ variables: crew.variables });
    crew.disks.at(place).lies = undefined;
    expect(await crew.step(), place).toBe(2);
  }
});

it('with data gone everywhere for both, nothing is restored and the error says what is missing', async () => {
  const data = (await crew.blobs()).filter((name) => name.includes('.data-00001'));
  const paths = data
    .flatMap((name) => PLACES.map((place) => crew.disks.path(place, name)))
    .filter(existsSync);
  const good = paths.map((path) => readFileSync(path));
  for (const path of paths) rmSync(path);
  await crew.set(77);
  await expect(chief.restoreNewest({ variables: crew.variables })).rejects.toMatchObject({
    code: 'SHOAL_UNREACHABLE',
    message: expect.stringMatching(/model\.ckpt-2.*data-00001.*model\.ckpt-1.*data-00001/s) as string,
  });
  expect(await crew.step()).toBe(77);
  paths.forEach((path, i) => {
    writeFileSync(path, good[i]!);
  });
});

it('values of a checkpoint that is given up never come after those of the one before', async () => {
  // The one ps finds its data damaged at once, the other waits for its own, which come from elsewhere.
  const broken = blobs.find(({ kind }) => kind === 'data-00000')!;
  const slow = blobs.find(({ kind }) => kind === 'data-00001')!;
  const others = slow.places.filter((place) => place !== 'ps/1');
  const own = crew.disks.path('ps/1', slow.name);
  const good = readFileSync(own);
  rmSync(own);
  let giveAway = () => {};
  const given = new Promise<void>((resolve) => {
    giveAway = resolve;
  });
  for (const place of others) {
    crew.disks.at(place).onRead = (name) => (name === slow.name ? given : undefined);
  }
  const { step, log } = await restoredWith(broken.name, broken.places, (bytes) => flipped(bytes, 9));
  expect(step).toBe(1);
  expect(log).toMatch(/model\.ckpt-2 can not be restored/);
  giveAway();
  await new Promise((resolve) => setTimeout(resolve, 1000));
  expect(await crew.step()).toBe(1);
  writeFileSync(own, good);
  for (const place of others) crew.disks.at(place).onRead = undefined;
});

it('a ps that is lost amid is no reason to go back to an older checkpoint', async () => {
  const lost = new ShoalError('SHOAL_UNREACHABLE', 'ps/1 was lost');
  const failing = crew.chief({
    owner: (name) => (name === 'ps/0' ? crew.owner(name) : { ...stub, restore: () => Promise.reject(lost) }),
  });
  await crew.set(77);
  await expect(failing.restoreNewest({ variables: crew.variables })).rejects.toBe(lost);
  await chief.restoreNewest({ variables: crew.variables });
  expect(await crew.step()).toBe(2);
});

const stub = {
  snapshot: () => Promise.reject(new Error('nobody asks')),
  write: () => Promise.reject(new Error('nobody asks')),
  drop: () => Promise.resolve(),
};
