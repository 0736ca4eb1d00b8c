import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { crc32c } from '../../../base/bytes/crc32c.js';
import type { RangeReader } from '../../../tensorflow/formats/range-reader.js';
import { BundleReader } from '../../../tensorflow/formats/tensor-bundle/bundle-reader.js';
import { writeIndexFile } from '../../../tensorflow/formats/tensor-bundle/index-file.js';
import { dataFile, indexFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import type { DType } from '../../../tensorflow/tensor/dtype.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { offsetInSector, SECTOR } from '../../store/disk/aligned.js';
import type { SavedVariable } from './saved-variable.js';
import { CHUNK_BYTES, type HeldVariable, ShardImage } from './shard-image.js';

function held(key: string, tensor: Tensor, part?: SavedVariable['part']): HeldVariable {
  const { dtype, shape } = tensor;
  const variable = { key, resource: key, container: '', dtype: dtype as DType, shape: [...shape] };
  return { variable: part ? { ...variable, part } : variable, tensor };
}

/** Pseudo-random bytes as a one-dimensional tensor. */
function noise(key: string, bytes: number): HeldVariable {
  const data = new Uint8Array(bytes);
  let state = bytes * 2654435761 + 1;
  for (let i = 0; i < bytes; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    data[i] = state >>> 24;
  }
  return held(key, Tensor.of(data as never, { dtype: 'uint8', shape: [bytes] }));
}

/** The same in TensorFlow's memory. */
function native(key: string, bytes: number): HeldVariable {
  const { tensor } = noise(key, bytes);
  const copy = Tensor.allocate([bytes], 'uint8');
  copy.setBytes(tensor.data as Uint8Array, 0);
  return held(key, copy);
}

async function streamed(image: ShardImage, offset = 0): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of image.source(offset)) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

/** Checks an image against checksums computed directly from its bytes. */
async function check(variables: readonly HeldVariable[]): Promise<void> {
  const bytes = await streamed(new ShardImage(variables));
  const fresh = new ShardImage(variables);
  expect(fresh.size).toBe(bytes.length);
  const chunks = Array.from({ length: Math.ceil(bytes.length / CHUNK_BYTES) }, (_, i) =>
    crc32c(bytes.subarray(i * CHUNK_BYTES, (i + 1) * CHUNK_BYTES)),
  );
  const used = new ShardImage(variables);
  await streamed(used);
  for (const image of [fresh, used]) {
    const sums = image.sums();
    expect([...sums.chunks]).toEqual(chunks);
    expect(sums.crc32c).toBe(crc32c(bytes));
    for (const { pieces, dtype } of sums.index.tensors.values()) {
      for (const { offset, size, crc32c: sum } of pieces) {
        // The checksum of a string tensor uses lengths as numbers, not as they are stored.
        if (dtype !== 7) expect(sum).toBe(crc32c(bytes.subarray(offset, offset + size)));
      }
    }
  }
}

/** A bundle in memory, read with verification. */
async function readBack(variables: readonly HeldVariable[]): Promise<BundleReader> {
  const image = new ShardImage(variables);
  const files = new Map<string, Uint8Array>([
    [dataFile('m', 0, 1), await streamed(image)],
    [indexFile('m'), writeIndexFile(image.sums().index)],
  ]);
  const reader: RangeReader = {
    size: async (file) => files.get(file)!.byteLength,
    read: async (file, offset, length) => files.get(file)!.subarray(offset, offset + length),
  };
  return BundleReader.open(reader, 'm');
}

const MANY = [
  held('half', Tensor.of([1.5, -2], { dtype: 'float16' })),
  held('nothing', Tensor.zeros([0, 7], 'float32')),
  held('scalar', Tensor.of(3n, { dtype: 'int64' })),
  held('words', Tensor.of(['one', '', 'drei', 'ü'.repeat(300)])),
  held('no words', Tensor.of([] as string[], { dtype: 'string', shape: [0] })),
  held('flags', Tensor.of([true, false, true])),
  held('floats', Tensor.of([[1, 2, 3]])),
];

describe('the image of a shard', () => {
  it('has the checksums of its bytes, for all kinds of tensors', async () => {
    await check(MANY);
    await check([]);
    await check([held('nothing', Tensor.zeros([0], 'float32'))]);
  });

  it('has them for tensors that end at, before and after a chunk boundary', async () => {
    const border = [
      [CHUNK_BYTES],
      [CHUNK_BYTES - 1, 1, 1],
      [CHUNK_BYTES + 1, CHUNK_BYTES - 1],
      [3, 2 * CHUNK_BYTES, 5],
      [CHUNK_BYTES - 70_000, 65_536, 65_537, 0, 200_000],
      [...Array.from({ length: 40 }, (_, i) => 1000 * i + 1), CHUNK_BYTES, 7],
    ];
    for (const sizes of border) await check(sizes.map((size, i) => noise(`t${i}`, size)));
  });

  it('streams the same bytes from any offset, repeatedly', async () => {
    const image = new ShardImage([...MANY, noise('large', CHUNK_BYTES + 999), noise('small', 100)]);
    const bytes = await streamed(image);
    const offsets = fc.oneof(
      fc.nat(image.size),
      fc.integer({ min: CHUNK_BYTES - 3, max: CHUNK_BYTES + 3 }),
      fc.integer({ min: image.size - 3, max: image.size }),
      fc.nat(3000),
    );
    await fc.assert(
      fc.asyncProperty(offsets, async (offset) => {
        const rest = await streamed(image, offset);
        expect(rest.equals(bytes.subarray(offset))).toBe(true);
      }),
      { numRuns: 30 },
    );
    expect(image.sums().crc32c).toBe(crc32c(bytes));
  });

  it('has the same checksums whichever offset was streamed first', async () => {
    const variables = [noise('a', 70_000), noise('b', CHUNK_BYTES), noise('c', 10)];
    const expected = new ShardImage(variables).sums();
    for (const offset of [1, 69_999, 70_001, CHUNK_BYTES, CHUNK_BYTES + 70_005]) {
      const image = new ShardImage(variables);
      await streamed(image, offset);
      expect(image.sums()).toEqual(expected);
    }
  });

  it('aligns large tensors as in memory, with zero padding before them', async () => {
    const large = [
      native('one', CHUNK_BYTES + 999),
      native('two', 1 << 20),
      native('three', 2 * CHUNK_BYTES),
    ];
    const variables = [
      noise('small', 100),
      large[0]!,
      noise('odd', 7),
      large[1]!,
      large[2]!,
      noise('last', 3),
    ];
    await check(variables);
    const image = new ShardImage(variables);
    const bytes = await streamed(image);
    const bundle = await readBack(variables);
    let end = 0;
    for (const { variable, tensor } of variables) {
      const { offset, size } = bundle.tensor(variable.key).pieces[0]!;
      expect(bytes.subarray(end, offset).every((byte) => byte === 0)).toBe(true);
      expect(offset - end).toBeLessThan(SECTOR);
      end = offset + size;
      expect(bytes.subarray(offset, end).equals(Buffer.from(tensor.data as Uint8Array))).toBe(true);
    }
    expect(end).toBe(image.size);
    for (const { variable, tensor } of large) {
      const { bytes: memory, giveBack } = tensor.lendBytes(0, 1);
      expect(bundle.tensor(variable.key).pieces[0]!.offset % SECTOR).toBe(offsetInSector(memory));
      giveBack();
    }
  });

  it('keeps a chunk unchanged while the next one is read', async () => {
    const small = Array.from({ length: 300 }, (_, i) => noise(`s${i}`, 20_000));
    const image = new ShardImage([...small, native('a', 3 * CHUNK_BYTES), ...small, native('b', 300_000)]);
    let before: { readonly chunk: Uint8Array; readonly copy: Buffer } | undefined;
    for await (const chunk of image.source(0)) {
      if (before) expect(Buffer.from(before.chunk).equals(before.copy)).toBe(true);
      before = { chunk, copy: Buffer.from(chunk) };
    }
  });

  it('is read as a bundle, every tensor with its checksum', async () => {
    const bundle = await readBack(MANY);
    for (const { variable, tensor } of MANY) {
      if (variable.dtype === 'string') {
        const values = await bundle.readStrings(variable.key);
        expect(values.map((value) => Buffer.from(value).toString())).toEqual(tensor.toArray());
        continue;
      }
      const data = tensor.data as unknown as NodeJS.TypedArray;
      const expected = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
      expect(Buffer.from(await bundle.read<Uint8Array>(variable.key)).equals(expected)).toBe(true);
    }
  });

  it('joins the parts of a variable on one task', async () => {
    const part = (row: number) => ({ fullShape: [4, 3], offset: [row, 0] });
    const rows = (row: number) => Tensor.of([0, 1].map((i) => [0, 1, 2].map((j) => 10 * (row + i) + j)));
    const bundle = await readBack([held('table', rows(2), part(2)), held('table', rows(0), part(0))]);
    const bytes = Buffer.from(await bundle.read<Uint8Array>('table'));
    const found = Array.from({ length: 12 }, (_, i) => bytes.readFloatLE(i * 4));
    expect(found).toEqual([0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32]);
  });

  it('rejects a tensor whose dtype or shape differs from the graph', () => {
    const { variable } = held('w', Tensor.of([1, 2]));
    for (const tensor of [Tensor.of([1]), Tensor.of([1, 2], { dtype: 'float64' })]) {
      expect(() => new ShardImage([{ variable, tensor }])).toThrow(
        expect.objectContaining({ code: 'SHOAL_INVALID_ARGUMENT' }),
      );
    }
  });
});
