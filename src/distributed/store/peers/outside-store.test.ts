import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ShoalError } from '../../../base/errors/errors.js';
import { RESERVED } from '../blob-names.js';
import { DirectoryStore } from '../disk/directory-store.js';
import { describeStore, readAll } from '../testing/conformance.js';
import { directoryBlobs } from './directory-blobs.js';
import { OutsideStore } from './outside-store.js';
import type { PeerBlobs } from './peers.js';

const PLACES = ['a', 'b', 'c'];

function storeOver(folder: string, change: (place: string, blobs: PeerBlobs) => PeerBlobs = (_, b) => b) {
  const disks = new Map(
    PLACES.map((place) => [place, directoryBlobs(new DirectoryStore(join(folder, place)))]),
  );
  return new OutsideStore({
    places: {
      members: () => PLACES.map((place) => ({ place, host: place, alive: true })),
      blobs: (place) => change(place, disks.get(place)!),
    },
    nearest: 'a',
  });
}

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-outside-'));
  for (const place of PLACES) mkdirSync(join(folder, place));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

describeStore('outside', async () => {
  const leftovers = () =>
    PLACES.flatMap((place) => {
      const partials = join(folder, place, RESERVED);
      return existsSync(partials) ? readdirSync(partials) : [];
    }).length;
  return { store: storeOver(folder), other: storeOver(folder), leftovers, close: async () => {} };
});

describe('from outside', () => {
  const holders = (name: string) => PLACES.filter((place) => existsSync(join(folder, place, name)));

  it('blobs are stored on different tasks, each with a replica', async () => {
    const store = storeOver(folder);
    const homes = new Set<string>();
    for (let i = 0; i < 12; i++) {
      const { places, shortfall } = await store.put(`blob-${i}`, Buffer.from('x'));
      expect(shortfall).toBe(0);
      expect([...places].sort()).toEqual(holders(`blob-${i}`));
      expect(places).toHaveLength(2);
      homes.add(places[0]!);
    }
    expect([...homes].sort()).toEqual(PLACES);
  });

  it('a task that fails to store a blob is replaced by another', async () => {
    const store = storeOver(folder, (place, blobs) =>
      place === 'a'
        ? { ...blobs, write: () => Promise.reject(new ShoalError('SHOAL_UNREACHABLE', 'away')) }
        : blobs,
    );
    for (let i = 0; i < 6; i++) {
      await store.put(`blob-${i}`, Buffer.from('x'));
      expect(holders(`blob-${i}`)).toEqual(['b', 'c']);
    }
  });

  it('a copy is made at the given place', async () => {
    const store = storeOver(folder);
    writeFileSync(join(folder, 'c', 'only'), 'here');
    await store.copy('only', 'a');
    await store.copy('only', 'b');
    expect(holders('only')).toEqual(PLACES);
    expect((await readAll(store, 'only', { place: 'b' })).toString()).toBe('here');
  });
});
