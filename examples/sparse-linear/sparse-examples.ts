/**
 * Generates data like that of click prediction: each record is a tf.train.Example with a `label` (0 or 1), about fifty
 * Zipf-distributed `ids` out of millions, and a value for each. Labels depend on a hidden weight of each id, so that a
 * model can learn them.
 *
 * The same options give the same bytes. Messages are encoded directly into one buffer, so a million records take
 * seconds.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Compression, TFRecordWriter } from 'shoal/formats';

export interface SparseExamplesOptions {
  readonly directory: string;
  readonly records: number;
  /** Ids are in [0, features). */
  readonly features: number;
  readonly files?: number;
  /** Files are named `prefix-00000-of-00004.tfrecord`; default: 'part'. */
  readonly prefix?: string;
  /** The mean number of ids per record, which varies by ±50 %; default: 50. */
  readonly idsPerRecord?: number;
  /** The exponent of the Zipf distribution; default: 1.05. Less is more uniform. */
  readonly exponent?: number;
  readonly seed?: number;
  readonly compression?: Compression;
  /** Called from time to time with the number of records written. */
  readonly onProgress?: (records: number) => void;
}

const PROGRESS_EVERY = 50_000;

/** Writes the files and returns their paths. */
export async function writeSparseExamples(options: SparseExamplesOptions): Promise<string[]> {
  const { directory, records, files = 1, prefix = 'part', features, idsPerRecord = 50, seed = 1 } = options;
  for (const [name, value] of Object.entries({ records, files, features, idsPerRecord })) {
    if (!Number.isSafeInteger(value) || value < 1)
      throw new RangeError(`${name} must be an integer of at least 1; got ${value}`);
  }
  if (features > 2 ** 31) throw new RangeError(`features must be at most 2^31; got ${features}`);
  await mkdir(directory, { recursive: true });
  const paths: string[] = [];
  let written = 0;
  for (let file = 0; file < files; file++) {
    const name = `${prefix}-${String(file).padStart(5, '0')}-of-${String(files).padStart(5, '0')}.tfrecord`;
    const path = join(directory, name);
    const count = Math.floor(((file + 1) * records) / files) - Math.floor((file * records) / files);
    const maker = new ExampleMaker({
      features,
      idsPerRecord,
      exponent: options.exponent ?? 1.05,
      seed,
      file,
    });
    const writer = new TFRecordWriter(path, { compression: options.compression });
    try {
      for (let i = 0; i < count; i++) {
        await writer.write(maker.next());
        if (++written % PROGRESS_EVERY === 0) options.onProgress?.(written);
      }
    } finally {
      await writer.close();
    }
    paths.push(path);
  }
  options.onProgress?.(written);
  return paths;
}

/** Random numbers in [0, 1) by the sfc32 generator. */
function randomFrom(seed: number, stream: number): () => number {
  let a = seed | 0;
  let b = stream | 0;
  let c = 0x2545f491;
  let counter = 1;
  const next = () => {
    const t = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + t) | 0;
    return (t >>> 0) / 2 ** 32;
  };
  for (let i = 0; i < 15; i++) next();
  return next;
}

/** The hidden weight of an id, between -1 and 1. */
function weightOf(id: number): number {
  let hash = Math.imul(id + 1, 0x9e3779b1);
  hash ^= hash >>> 15;
  hash = Math.imul(hash, 0x85ebca77);
  hash ^= hash >>> 13;
  return hash / 2 ** 31;
}

/** A number near the golden section of `features` and coprime to it. */
function stride(features: number): number {
  // Products of ranks and strides stay exact below 2^53.
  const most = Math.min(features - 1, 2 ** 21);
  const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b));
  for (let by = Math.max(1, Math.floor(most * 0.618)); by > 1; by--) if (gcd(features, by) === 1) return by;
  return 1;
}

/** The length in bytes of a number in [0, 2^31) as a protocol buffer varint. */
function varintLength(value: number): number {
  let length = 1;
  for (let rest = value; rest >= 128; rest >>>= 7) length++;
  return length;
}

/** Writes a number in [0, 2^31) as a varint and returns the offset after it. */
function putVarint(target: Uint8Array, offset: number, value: number): number {
  let rest = value;
  for (; rest >= 128; rest >>>= 7) target[offset++] = (rest & 0x7f) | 0x80;
  target[offset++] = rest;
  return offset;
}

const LABEL = Buffer.from('label');
const IDS = Buffer.from('ids');
const VALUES = Buffer.from('values');
const FLOAT_LIST = 2;
const INT64_LIST = 3;
const tag = (field: number) => (field << 3) | 2;

class ExampleMaker {
  readonly #random: () => number;
  readonly #features: number;
  readonly #least: number;
  readonly #spread: number;
  readonly #stride: number;
  readonly #exponent: number;
  readonly #reach: number;
  readonly #ids: Uint32Array;
  readonly #values: Float32Array;
  readonly #label = new Float32Array(1);
  readonly #packedIds: Buffer;
  #buffer: Buffer;

  constructor(options: {
    readonly features: number;
    readonly idsPerRecord: number;
    readonly exponent: number;
    readonly seed: number;
    readonly file: number;
  }) {
    const { features, idsPerRecord, seed, file } = options;
    this.#random = randomFrom(seed, file);
    this.#features = features;
    this.#least = Math.max(1, Math.ceil(idsPerRecord / 2));
    this.#spread = 2 * (idsPerRecord - this.#least) + 1;
    this.#stride = stride(features);
    // 1 itself would divide by zero below.
    this.#exponent = Math.abs(options.exponent - 1) < 1e-6 ? 1 + 1e-6 : options.exponent;
    this.#reach = (features + 1) ** (1 - this.#exponent) - 1;
    const most = this.#least + this.#spread;
    this.#ids = new Uint32Array(most);
    this.#values = new Float32Array(most);
    this.#packedIds = Buffer.allocUnsafe(most * 5);
    this.#buffer = Buffer.allocUnsafe(most * 9 + 128);
  }

  /** The next record; its bytes are valid until the next call. */
  next(): Uint8Array {
    const random = this.#random;
    const count = this.#least + Math.floor(random() * this.#spread);
    const power = 1 / (1 - this.#exponent);
    const features = this.#features;
    const [by, reach, ids, values] = [this.#stride, this.#reach, this.#ids, this.#values];
    let score = 0;
    for (let i = 0; i < count; i++) {
      // A power by logarithms, which is faster than `**`.
      const rank = Math.min(features, Math.floor(Math.exp(power * Math.log(random() * reach + 1)))) - 1;
      // Spreads frequent ids over the range, as hashing does, and so over all ps.
      const id = (rank * by) % features;
      const value = 0.5 + random();
      ids[i] = id;
      values[i] = value;
      score += weightOf(id) * value;
    }
    const chance = 1 / (1 + Math.exp(-4 * (score / Math.sqrt(count)) + 1));
    this.#label[0] = random() < chance ? 1 : 0;
    return this.#encode(count);
  }

  #encode(count: number): Uint8Array {
    let idBytes = 0;
    for (let i = 0; i < count; i++) idBytes = putVarint(this.#packedIds, idBytes, this.#ids[i] as number);
    const values = Buffer.from(this.#values.buffer, 0, count * 4);
    const label = Buffer.from(this.#label.buffer);
    const ids = this.#packedIds.subarray(0, idBytes);
    const size =
      entrySize(IDS, ids.length) + entrySize(LABEL, label.length) + entrySize(VALUES, values.length);
    const whole = 1 + varintLength(size) + size;
    if (whole > this.#buffer.length) this.#buffer = Buffer.allocUnsafe(2 * whole);
    const target = this.#buffer;
    target[0] = tag(1);
    let at = putVarint(target, 1, size);
    at = putEntry(target, at, IDS, INT64_LIST, ids);
    at = putEntry(target, at, LABEL, FLOAT_LIST, label);
    at = putEntry(target, at, VALUES, FLOAT_LIST, values);
    return target.subarray(0, at);
  }
}

/** Sizes of the nested messages: list, feature, map entry. */
function sizes(key: Buffer, packed: number) {
  const list = 1 + varintLength(packed) + packed;
  const feature = 1 + varintLength(list) + list;
  const entry = 1 + varintLength(key.length) + key.length + 1 + varintLength(feature) + feature;
  return { list, feature, entry };
}

function entrySize(key: Buffer, packed: number): number {
  const { entry } = sizes(key, packed);
  return 1 + varintLength(entry) + entry;
}

function putEntry(target: Buffer, from: number, key: Buffer, kind: number, packed: Buffer): number {
  const { list, feature, entry } = sizes(key, packed.length);
  let at = from;
  target[at++] = tag(1);
  at = putVarint(target, at, entry);
  target[at++] = tag(1);
  at = putVarint(target, at, key.length);
  at += key.copy(target, at);
  target[at++] = tag(2);
  at = putVarint(target, at, feature);
  target[at++] = tag(kind);
  at = putVarint(target, at, list);
  target[at++] = tag(1);
  at = putVarint(target, at, packed.length);
  return at + packed.copy(target, at);
}
