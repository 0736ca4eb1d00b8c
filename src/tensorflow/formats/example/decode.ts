/**
 * Parses tf.train.Example and tf.train.SequenceExample into plain objects. Any input gives a value
 * or a SHOAL_CORRUPT error; allocations are bounded by the input's length. Bytes are views of the input.
 */
import { ByteReader } from '../../../base/bytes/reader.js';
import type { FeatureValue } from './features.js';
import { decodePackedInt64 } from './packed-int64.js';

export type ExampleFeatures = Record<string, FeatureValue>;

export interface SequenceExample {
  readonly context: ExampleFeatures;
  readonly featureLists: Record<string, FeatureValue[]>;
}

const VARINT = 0;
const FIXED64 = 1;
const DELIMITED = 2;
const FIXED32 = 5;

/** @param source the name of the input, for error messages. */
export function decodeExample(bytes: Uint8Array, source = 'the example'): ExampleFeatures {
  const features: ExampleFeatures = Object.create(null);
  eachField(new ByteReader(bytes, source), (field, part) => {
    if (field === 1) readMap(part, features, readFeature);
  });
  return features;
}

export function decodeSequenceExample(bytes: Uint8Array, source = 'the example'): SequenceExample {
  const context: ExampleFeatures = Object.create(null);
  const featureLists: Record<string, FeatureValue[]> = Object.create(null);
  eachField(new ByteReader(bytes, source), (field, part) => {
    if (field === 1) readMap(part, context, readFeature);
    if (field === 2) readMap(part, featureLists, readFeatureList);
  });
  return { context, featureLists };
}

/** Calls `visit` for every length-delimited field; skips other fields. */
function eachField(reader: ByteReader, visit: (field: number, part: ByteReader) => void): void {
  while (reader.remaining > 0) {
    const key = reader.varint('a field');
    const field = Math.floor(key / 8);
    const wire = key % 8;
    if (wire === DELIMITED) visit(field, reader.sub(reader.varint('the length of a field'), 'a field'));
    else skip(reader, wire);
  }
}

function skip(reader: ByteReader, wire: number): void {
  if (wire === VARINT) reader.bigVarint();
  else if (wire === FIXED64) reader.skip(8);
  else if (wire === FIXED32) reader.skip(4);
  else throw reader.corrupt(`a field of the unknown type ${wire}`);
}

function readMap<T>(reader: ByteReader, into: Record<string, T>, readValue: (part: ByteReader) => T): void {
  eachField(reader, (field, entry) => {
    if (field !== 1) return;
    let name = '';
    let value: ByteReader | undefined;
    eachField(entry, (part, content) => {
      if (part === 1) name = content.utf8(content.remaining, 'the name of a feature');
      if (part === 2) value = content;
    });
    into[name] = readValue(value ?? new ByteReader(new Uint8Array(0), reader.source));
  });
}

function readFeatureList(reader: ByteReader): FeatureValue[] {
  const steps: FeatureValue[] = [];
  eachField(reader, (field, part) => {
    if (field === 1) steps.push(readFeature(part));
  });
  return steps;
}

function readFeature(reader: ByteReader): FeatureValue {
  let value: FeatureValue = null;
  eachField(reader, (field, part) => {
    if (field === 1) value = readBytesList(part);
    if (field === 2) value = readFloatList(part);
    if (field === 3) value = readInt64List(part);
  });
  return value;
}

function readBytesList(reader: ByteReader): Uint8Array[] {
  const values: Uint8Array[] = [];
  eachField(reader, (field, part) => {
    if (field === 1) values.push(part.take(part.remaining));
  });
  return values;
}

/** A list is usually one packed field, but may consist of several packed and single values. */
function readFloatList(reader: ByteReader): Float32Array {
  const parts: Uint8Array[] = [];
  while (reader.remaining > 0) {
    const key = reader.varint('a field');
    if (key === ((1 << 3) | DELIMITED)) {
      const length = reader.varint('the length of floats');
      if (length % 4 !== 0) throw reader.corrupt(`${length} bytes are not a multiple of the size of a float`);
      parts.push(reader.take(length, 'floats'));
    } else if (key === ((1 << 3) | FIXED32)) parts.push(reader.take(4, 'a float'));
    else if (key % 8 === DELIMITED) reader.skip(reader.varint());
    else skip(reader, key % 8);
  }
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return new Float32Array(bytes.buffer);
}

function readInt64List(reader: ByteReader): BigInt64Array {
  const parts: BigInt64Array[] = [];
  while (reader.remaining > 0) {
    const key = reader.varint('a field');
    if (key === ((1 << 3) | DELIMITED))
      parts.push(decodePackedInt64(reader.sub(reader.varint(), 'integers')));
    else if (key === ((1 << 3) | VARINT))
      parts.push(BigInt64Array.of(BigInt.asIntN(64, reader.bigVarint('an integer'))));
    else if (key % 8 === DELIMITED) reader.skip(reader.varint());
    else skip(reader, key % 8);
  }
  if (parts.length === 1) return parts[0]!;
  const values = new BigInt64Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    values.set(part, at);
    at += part.length;
  }
  return values;
}
