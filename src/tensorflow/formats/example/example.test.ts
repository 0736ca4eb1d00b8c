import { fromBinary, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { damaged, valueOrCodedError } from '../../../../test/formats/fuzz.js';
import {
  ExampleSchema,
  FeaturesSchema,
  SequenceExampleSchema,
} from '../../../base/proto/generated/example_pb.js';
import { decodeExample, decodeSequenceExample } from './decode.js';
import { encodeExample, encodeSequenceExample } from './encode.js';
import type { FeatureInput } from './features.js';

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const value: fc.Arbitrary<Float32Array | BigInt64Array | Uint8Array[]> = fc.oneof(
  fc.float32Array({ maxLength: 20 }),
  fc
    .array(fc.oneof(int64, fc.bigInt({ min: 0n, max: 300n })), { maxLength: 20 })
    .map((all) => BigInt64Array.from(all)),
  fc.array(fc.uint8Array({ maxLength: 20 }), { minLength: 1, maxLength: 5 }),
);
const features = fc.dictionary(fc.string({ unit: 'grapheme' }), value, { maxKeys: 6, noNullPrototype: true });

const text = (value: string) => new TextEncoder().encode(value);
const good = encodeExample({ ids: [1n, 300n, -1n], label: 1, words: ['a', 'bc'] });

describe('an example', () => {
  test('round-trips any features', () => {
    fc.assert(
      fc.property(features, (input) => {
        expect({ ...decodeExample(encodeExample(input)) }).toEqual({ ...input });
      }),
    );
  });

  test('is compatible with protobuf in both directions', () => {
    fc.assert(
      fc.property(features, (input) => {
        const message = fromBinary(ExampleSchema, encodeExample(input));
        expect(Object.keys(message.features?.feature ?? {}).sort()).toEqual(Object.keys(input).sort());
        expect({ ...decodeExample(toBinary(ExampleSchema, message)) }).toEqual({ ...input });
      }),
    );
  });

  test('accepts single values and every kind of array', () => {
    const input: Record<string, FeatureInput> = {
      a: 1.5,
      b: 7n,
      c: 'text',
      d: Uint8Array.of(1, 2),
      e: [1, 2],
      f: [1n, 2n],
      g: ['x', Uint8Array.of(9)],
      h: Float64Array.of(0.25),
      i: Int32Array.of(-5),
      j: BigUint64Array.of(5n),
    };
    expect({ ...decodeExample(encodeExample(input)) }).toEqual({
      a: Float32Array.of(1.5),
      b: BigInt64Array.of(7n),
      c: [text('text')],
      d: [Uint8Array.of(1, 2)],
      e: Float32Array.of(1, 2),
      f: BigInt64Array.of(1n, 2n),
      g: [text('x'), Uint8Array.of(9)],
      h: Float32Array.of(0.25),
      i: BigInt64Array.of(-5n),
      j: BigInt64Array.of(5n),
    });
  });

  test('rejects values without a kind or of mixed kinds, and names the feature', () => {
    expect(() => encodeExample({ empty: [] })).toThrow(/feature empty is an empty array/);
    expect(() => encodeExample({ mixed: [1, 2n] as unknown as number[] })).toThrow(
      /feature mixed mixes types/,
    );
    expect(() => encodeExample({ odd: true as unknown as number })).toThrow(/feature odd must consist of/);
  });

  test('reads unpacked and partially packed lists', () => {
    // ids: 1, then 2 and 3 packed, then 4; floats: 1.0 alone, then 2.0 packed.
    const int64List = Buffer.from('08010a0202030804', 'hex');
    const floatList = Buffer.concat([Buffer.from('0d0000803f', 'hex'), Buffer.from('0a0400000040', 'hex')]);
    const entry = (name: string, field: number, list: Buffer) => {
      const feature = Buffer.concat([Buffer.of((field << 3) | 2, list.length), list]);
      const content = Buffer.concat([
        Buffer.of(10, name.length),
        Buffer.from(name),
        Buffer.of(18, feature.length),
        feature,
      ]);
      return Buffer.concat([Buffer.of(10, content.length), content]);
    };
    const all = Buffer.concat([entry('i', 3, int64List), entry('f', 2, floatList)]);
    const bytes = Buffer.concat([Buffer.of(10, all.length), all]);
    expect({ ...decodeExample(bytes) }).toEqual({
      i: BigInt64Array.of(1n, 2n, 3n, 4n),
      f: Float32Array.of(1, 2),
    });
    expect(fromBinary(FeaturesSchema, all).feature.i!.kind.value).toMatchObject({
      value: ['1', '2', '3', '4'],
    });
  });

  test('keeps a feature called __proto__ separate from the prototype', () => {
    const features = decodeExample(encodeExample(JSON.parse('{"__proto__": 1}') as Record<string, number>));
    expect(Object.keys(features)).toEqual(['__proto__']);
    expect(Object.getPrototypeOf(features)).toBeNull();
  });

  test('from any bytes yields features or a coded error', () => {
    const read = (bytes: Uint8Array) => valueOrCodedError(() => decodeExample(bytes));
    fc.assert(fc.property(fc.uint8Array({ maxLength: 100 }), read));
    fc.assert(fc.property(damaged(good), read), { numRuns: 1000 });
  });
});

describe('a sequence example', () => {
  const sequence = encodeSequenceExample({ length: 2n }, { words: [['a', 'b'], 'c'], none: [] });

  test('round-trips its context and its lists', () => {
    const { context, featureLists } = decodeSequenceExample(sequence);
    expect({ ...context }).toEqual({ length: BigInt64Array.of(2n) });
    expect({ ...featureLists }).toEqual({
      words: [[text('a'), text('b')], [text('c')]],
      none: [],
    });
  });

  test('is compatible with protobuf', () => {
    const message = fromBinary(SequenceExampleSchema, sequence);
    expect(message.featureLists!.featureList.words!.feature).toHaveLength(2);
    expect(Buffer.compare(toBinary(SequenceExampleSchema, message), sequence)).toBe(0);
  });

  test('from any bytes yields lists or a coded error', () => {
    fc.assert(
      fc.property(damaged(sequence), (bytes) => valueOrCodedError(() => decodeSequenceExample(bytes))),
      { numRuns: 500 },
    );
  });
});
