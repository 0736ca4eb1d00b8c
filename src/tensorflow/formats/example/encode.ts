/**
 * Encodes plain objects as tf.train.Example and tf.train.SequenceExample. Messages are written directly, without
 * intermediate message objects: floats are copied as they are in memory.
 */
import { putVarint, varintLength } from '../../../base/bytes/varint.js';
import { type FeatureInput, type FeatureList, toFeatureList } from './features.js';

export type FeatureInputs = Readonly<Record<string, FeatureInput>>;
export type FeatureListInputs = Readonly<Record<string, readonly FeatureInput[]>>;

/** The first byte of a length-delimited field. */
const tag = (field: number) => (field << 3) | 2;
const FIELD_OF_KIND = { bytes: 1, float: 2, int64: 3 } as const;

/** A message whose size is known before it is written; the parent needs it for its own length. */
interface Sized {
  readonly size: number;
  write(target: Buffer, at: number): number;
}

/** A length-delimited field: its first byte, the length, the content. */
function field(number: number, content: Sized): Sized {
  return {
    size: 1 + varintLength(content.size) + content.size,
    write(target, at) {
      target[at++] = tag(number);
      return content.write(target, putVarint(target, at, content.size));
    },
  };
}

function sequence(parts: readonly Sized[]): Sized {
  return {
    size: parts.reduce((sum, part) => sum + part.size, 0),
    write(target, at) {
      for (const part of parts) at = part.write(target, at);
      return at;
    },
  };
}

function text(value: string): Sized {
  const size = Buffer.byteLength(value);
  return { size, write: (target, at) => at + target.write(value, at, size, 'utf8') };
}

function raw(value: Uint8Array): Sized {
  return {
    size: value.length,
    write(target, at) {
      target.set(value, at);
      return at + value.length;
    },
  };
}

/** 64-bit integers as two halves, to avoid creating BigInts. */
function varints(values: BigInt64Array | BigUint64Array): Sized {
  const halves = new Uint32Array(values.buffer, values.byteOffset, values.length * 2);
  let size = 0;
  for (let i = 0; i < halves.length; i += 2) size += lengthOfHalves(halves[i]!, halves[i + 1]!);
  return {
    size,
    write(target, at) {
      for (let i = 0; i < halves.length; i += 2) at = putHalves(target, at, halves[i]!, halves[i + 1]!);
      return at;
    },
  };
}

function lengthOfHalves(low: number, high: number): number {
  const bits = high === 0 ? 32 - Math.clz32(low) : 64 - Math.clz32(high);
  return Math.max(1, Math.ceil(bits / 7));
}

function putHalves(target: Uint8Array, at: number, low: number, high: number): number {
  while (high !== 0 || low >= 0x80) {
    target[at++] = (low & 0x7f) | 0x80;
    low = ((low >>> 7) | (high << 25)) >>> 0;
    high >>>= 7;
  }
  target[at++] = low;
  return at;
}

function listContent(list: FeatureList): Sized {
  if (list.kind === 'bytes') {
    return sequence(
      list.values.map((value) => field(1, typeof value === 'string' ? text(value) : raw(value))),
    );
  }
  if (list.values.length === 0) return sequence([]);
  if (list.kind === 'int64') return field(1, varints(list.values));
  const { buffer, byteOffset, byteLength } = list.values;
  return field(1, raw(new Uint8Array(buffer, byteOffset, byteLength)));
}

function feature(name: string, input: FeatureInput): Sized {
  const list = toFeatureList(name, input);
  return field(FIELD_OF_KIND[list.kind], listContent(list));
}

/** A map field, as entries of key and value. */
function mapEntries<T>(
  values: Readonly<Record<string, T>>,
  contentOf: (name: string, value: T) => Sized,
): Sized {
  return sequence(
    Object.entries(values).map(([name, value]) =>
      field(1, sequence([field(1, text(name)), field(2, contentOf(name, value))])),
    ),
  );
}

function toBytes(message: Sized): Uint8Array {
  const bytes = new Uint8Array(message.size);
  message.write(Buffer.from(bytes.buffer), 0);
  return bytes;
}

/** The bytes of a tf.train.Example. */
export function encodeExample(features: FeatureInputs): Uint8Array {
  return toBytes(field(1, mapEntries(features, feature)));
}

/** The bytes of a tf.train.SequenceExample: context features, and lists with one feature per step. */
export function encodeSequenceExample(context: FeatureInputs, featureLists: FeatureListInputs): Uint8Array {
  const lists = mapEntries(featureLists, (name, steps) =>
    sequence(steps.map((step) => field(1, feature(name, step)))),
  );
  return toBytes(sequence([field(1, mapEntries(context, feature)), field(2, lists)]));
}
