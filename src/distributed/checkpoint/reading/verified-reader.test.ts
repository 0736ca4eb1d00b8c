import { randomBytes } from 'node:crypto';
import {
  appendFileSync,
  closeSync,
  openSync,
  renameSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { LentBytes } from '../../../base/bytes/lent-bytes.js';
import { Spoiled } from '../../../tensorflow/formats/range-reader.js';
import { alignedBlocks } from '../../store/disk/aligned.js';
import { type Manifest, manifestFile } from '../format/manifest.js';
import { fileBlob } from '../format/names.js';
import { CHUNK_BYTES } from '../format/shard-image.js';
import { Disks } from '../testing/disks.js';
import { VerifiedReader } from './verified-reader.js';

const FILE = 'm-1.data-00000-of-00001';
const NAME = { prefix: 'm-1', attempt: 'aaaa' };
const BLOB = fileBlob('job', NAME, FILE);
const CHUNKS = 5;
const BYTES = randomBytes((CHUNKS - 1) * CHUNK_BYTES + 12_345);

const manifest: Manifest = {
  format: 'shoal-checkpoint',
  version: 1,
  sequence: 1,
  step: 1,
  ...NAME,
  savedAtMs: 0,
  consistency: 'consistent',
  chief: { task: '', incarnation: 0 },
  shards: 1,
  tensors: 1,
  files: [manifestFile(FILE, BYTES, ['ps/0', 'ps/1'])],
  input: null,
};

let disks: Disks;
let notices: string[] = [];

/** One copy on ps/0 and one on ps/1; the reader, chief/0, has none. */
beforeAll(async () => {
  disks = new Disks(['ps/0', 'ps/1', 'chief/0']);
  for (const place of ['ps/0', 'ps/1']) await disks.put(place, BLOB, BYTES);
});
afterEach(() => {
  notices = [];
  for (const disk of disks.all) Object.assign(disk, { isAway: false, lies: undefined, onRead: undefined });
});
afterAll(() => disks[Symbol.dispose]());

const reader = () =>
  new VerifiedReader(disks.store('chief/0'), manifest, {
    namespace: 'job',
    onDamage: (line) => notices.push(line),
  });

/** Flips a bit at each position during `act`. */
async function flipped<T>(
  flips: readonly (readonly [place: string, at: number])[],
  act: () => Promise<T>,
): Promise<T> {
  const set = (change: number) => {
    for (const [place, at] of flips) {
      const file = openSync(disks.path(place, BLOB), 'r+');
      writeSync(file, Uint8Array.of(BYTES[at]! ^ change), 0, 1, at);
      closeSync(file);
    }
  };
  set(0x10);
  try {
    return await act();
  } finally {
    set(0);
  }
}

const readWith = async (from: VerifiedReader) => Buffer.from(await from.read(FILE, 0, BYTES.length));
const readWhole = () => readWith(reader());

describe('a verified reader', () => {
  it('reads any range', async () => {
    const one = reader();
    const ranges = [
      [0, 1],
      [0, BYTES.length],
      [CHUNK_BYTES - 1, 2],
      [CHUNK_BYTES, CHUNK_BYTES],
      [3 * CHUNK_BYTES - 5, CHUNK_BYTES + 10],
      [BYTES.length - 1, 1],
      [BYTES.length, 0],
      [7, 0],
    ] as const;
    for (const [offset, length] of ranges) {
      const found = Buffer.from(await one.read(FILE, offset, length));
      expect(found.equals(BYTES.subarray(offset, offset + length)), `${offset}+${length}`).toBe(true);
    }
    expect(notices).toEqual([]);
  });

  it('reads each chunk once for consecutive small reads', async () => {
    const one = reader();
    for (let at = 0; at + 999_983 <= 3 * CHUNK_BYTES; at += 999_983) await one.read(FILE, at, 999_983);
    expect(one.bytesRead).toBe(3 * CHUNK_BYTES);
  });

  it('rejects a range outside the file', async () => {
    await expect(reader().read(FILE, BYTES.length - 1, 2)).rejects.toMatchObject({ code: 'SHOAL_CORRUPT' });
    await expect(reader().read('another', 0, 1)).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
  });

  it.each(Array.from({ length: CHUNKS }, (_, i) => i))(
    'uses the other copy if chunk %i of one has a flipped bit, and logs it',
    async (chunk) => {
      // Both copies are damaged in turn: which one is read first depends on their age.
      for (const place of ['ps/0', 'ps/1']) {
        const found = await flipped(
          [[place, Math.min(BYTES.length - 1, chunk * CHUNK_BYTES + 4321)]],
          readWhole,
        );
        expect(found.equals(BYTES)).toBe(true);
      }
      expect(notices.length).toBeGreaterThanOrEqual(1);
      expect(notices.join('\n')).toContain(`chunk ${chunk}`);
    },
  );

  it('uses the good chunks of each of two damaged copies', async () => {
    const [first, second] = [5, CHUNK_BYTES + 5];
    const found = await flipped(
      [
        ['ps/0', first],
        ['ps/1', second],
      ],
      readWhole,
    );
    expect(found.equals(BYTES)).toBe(true);
    // Whichever of the two is read first.
    expect(notices.join('\n')).toMatch(/chunk 0 at ps\/0|chunk 1 at ps\/1/);
  });

  it('fails if all copies of a chunk are damaged, and returns no byte of it', async () => {
    await flipped(
      [
        ['ps/0', 2 * CHUNK_BYTES + 5],
        ['ps/1', 2 * CHUNK_BYTES + 99],
      ],
      async () => {
        await expect(readWhole()).rejects.toMatchObject({
          code: 'SHOAL_CORRUPT',
          message: expect.stringMatching(/ps\/0.*ps\/1|ps\/1.*ps\/0/s) as string,
        });
        const found = await reader().read(FILE, 0, 2 * CHUNK_BYTES);
        expect(Buffer.from(found).equals(BYTES.subarray(0, 2 * CHUNK_BYTES))).toBe(true);
      },
    );
  });

  it.each([0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, 3 * CHUNK_BYTES + 7, BYTES.length - 1])(
    'skips a copy that was truncated at byte %i',
    async (length) => {
      for (const place of ['ps/0', 'ps/1']) {
        truncateSync(disks.path(place, BLOB), length);
        expect((await readWhole()).equals(BYTES)).toBe(true);
        writeFileSync(disks.path(place, BLOB), BYTES);
      }
    },
  );

  it('ignores extra bytes at the end of a copy', async () => {
    const paths = ['ps/0', 'ps/1'].map((place) => disks.path(place, BLOB));
    for (const path of paths) appendFileSync(path, 'more');
    expect((await readWhole()).equals(BYTES)).toBe(true);
    for (const path of paths) truncateSync(path, BYTES.length);
  });

  it('rejects wrong bytes of the right length from a peer', async () => {
    disks.at('ps/0').lies = (bytes) => randomBytes(bytes.byteLength);
    disks.at('ps/1').lies = undefined;
    expect((await readWhole()).equals(BYTES)).toBe(true);
    disks.at('ps/1').lies = (bytes) => Buffer.from(bytes).reverse();
    await expect(readWhole()).rejects.toMatchObject({ code: 'SHOAL_CORRUPT' });
  });

  it('handles a peer that returns too many bytes, or none', async () => {
    disks.at('ps/0').lies = (bytes) => Buffer.concat([bytes, bytes]);
    disks.at('ps/1').lies = (bytes) => Buffer.concat([bytes, bytes]);
    await expect(readWhole()).rejects.toMatchObject({ code: 'SHOAL_CORRUPT' });
    disks.at('ps/1').lies = () => new Uint8Array(0);
    await expect(readWhole()).rejects.toMatchObject({ code: 'SHOAL_CORRUPT' });
  });

  it('continues with another copy when a place disappears during a read', async () => {
    for (const place of ['ps/0', 'ps/1']) {
      let reads = 0;
      disks.at(place).onRead = () => {
        reads += 1;
        if (reads === 3) disks.at(place).isAway = true;
      };
      expect((await readWhole()).equals(BYTES)).toBe(true);
      disks.at(place).isAway = false;
      disks.at(place).onRead = undefined;
    }
    expect(notices.join('\n')).toContain('does not answer');
  });

  it('names the places if no copy is reachable, and finds one that returns', async () => {
    const one = reader();
    for (const place of ['ps/0', 'ps/1']) disks.at(place).isAway = true;
    await expect(readWith(one)).rejects.toMatchObject({
      code: 'SHOAL_UNREACHABLE',
      message: expect.stringContaining('ps/0, ps/1') as string,
    });
    disks.at('ps/1').isAway = false;
    expect((await readWith(one)).equals(BYTES)).toBe(true);
  });

  it('finds a copy that was made elsewhere later', async () => {
    await disks.store('chief/0').copy(BLOB, 'chief/0');
    const paths = ['ps/0', 'ps/1'].map((place) => disks.path(place, BLOB));
    for (const path of paths) renameSync(path, `${path}.gone`);
    expect((await readWhole()).equals(BYTES)).toBe(true);
    for (const path of paths) renameSync(`${path}.gone`, path);
    await disks.store('chief/0').remove(BLOB, { place: 'chief/0' });
  });

  it('ends when it is aborted', async () => {
    const stop = new AbortController();
    const one = new VerifiedReader(disks.store('chief/0'), manifest, {
      namespace: 'job',
      signal: stop.signal,
    });
    disks.at('ps/0').onRead = () => stop.abort(new Error('stop'));
    disks.at('ps/1').onRead = () => stop.abort(new Error('stop'));
    await expect(readWith(one)).rejects.toThrow();
  });
});

describe('a reader that reads chunks directly into memory', () => {
  const OFFSET = 64;
  const LENGTH = 4 * CHUNK_BYTES - 1000;

  /** Reads a range into memory with the alignment of the file; counts lent and copied bytes. */
  async function pour(
    self: string,
    { offset = OFFSET, signal }: { offset?: number; signal?: AbortSignal } = {},
  ) {
    const [memory] = alignedBlocks(1, 5 * CHUNK_BYTES) as [Uint8Array];
    const counts = { lent: 0, copied: 0, isRight: false, error: undefined as unknown };
    const from = new VerifiedReader(disks.store(self), manifest, {
      namespace: 'job',
      onDamage: (line) => notices.push(line),
      signal,
    });
    const take = (bytes: Uint8Array, at: number) => {
      counts.copied += bytes.byteLength;
      memory.set(bytes, offset + at);
    };
    const place = (at: number, length: number): LentBytes => {
      counts.lent += 1;
      const giveBack = () => {
        counts.lent -= 1;
      };
      return { bytes: memory.subarray(offset + at, offset + at + length), giveBack };
    };
    const poured = from.pour(FILE, offset, LENGTH, take, place);
    counts.error = await poured.then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    from.close();
    counts.isRight = Buffer.from(memory.subarray(offset, offset + LENGTH)).equals(
      BYTES.subarray(offset, offset + LENGTH),
    );
    return counts;
  }
  const parts = LENGTH - 2 * CHUNK_BYTES;

  it.each(['ps/0', 'chief/0'])('as %s copies only parts of chunks', async (self) => {
    expect(await pour(self)).toEqual({ lent: 0, copied: parts, error: undefined, isRight: true });
  });

  it.each(['ps/0', 'chief/0'])('as %s uses the other copy of a damaged chunk', async (self) => {
    for (const place of ['ps/0', 'ps/1']) {
      const found = await flipped([[place, 2 * CHUNK_BYTES + 99]], () => pour(self));
      expect(found).toMatchObject({ lent: 0, error: undefined, isRight: true });
    }
    expect(notices.join('\n')).toContain('chunk 2');
  });

  it('returns no damaged chunk', async () => {
    const flips = ['ps/0', 'ps/1'].map((place) => [place, CHUNK_BYTES + 1] as const);
    const { error, lent } = await flipped(flips, () => pour('ps/0'));
    expect(error).toMatchObject({ code: 'SHOAL_CORRUPT' });
    expect(lent).toBe(0);
  });

  it('reports undefined memory contents when a read was aborted', async () => {
    const stop = new AbortController();
    disks.at('ps/0').onRead = () => stop.abort(new Error('stop'));
    disks.at('ps/1').onRead = () => stop.abort(new Error('stop'));
    const counts = await pour('chief/0', { offset: 0, signal: stop.signal });
    expect(counts.error).toBeInstanceOf(Spoiled);
    expect(counts).toMatchObject({ copied: 0, isRight: false });
    await expect.poll(() => counts.lent).toBe(0);
  });
});
