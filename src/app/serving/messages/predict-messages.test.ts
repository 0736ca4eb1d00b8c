import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type TensorProto, TensorProtoSchema } from '../../../base/proto/generated/graph_pb.js';
import { PredictRequestSchema, PredictResponseSchema } from '../../../base/proto/generated/serving_pb.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { ServingError } from '../status.js';
import { readInputs, readPredict, writePredictResponse } from './predict-messages.js';
import { readTensorProto } from './tensor-reader.js';

const LIMITS = { maxTensorBytes: 1 << 20, maxStrings: 1000 };
const DT_FLOAT = 1;
const DT_STRING = 7;
const DT_INT64 = 9;

type Fields = Parameters<typeof create<typeof TensorProtoSchema>>[1];

const dims = (...sizes: readonly number[]) => ({ dim: sizes.map((size) => ({ size: BigInt(size) })) });

const read = (fields: Fields): Tensor =>
  readTensorProto(toBinary(TensorProtoSchema, create(TensorProtoSchema, fields)), 'x', {
    bytes: LIMITS.maxTensorBytes,
    strings: LIMITS.maxStrings,
  });

const statusOf = (fields: Fields): string => {
  try {
    read(fields);
    return 'OK';
  } catch (error) {
    return (error as ServingError).status;
  }
};

test('a response with any values is read by protobuf as it was written', () => {
  const int64 = fc.array(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }));
  const floats = fc.array(fc.float({ noNaN: true }));
  fc.assert(
    fc.property(int64, floats, fc.array(fc.string()), (longs, numbers, strings) => {
      const outputs = {
        longs: Tensor.of(BigInt64Array.from(longs), { shape: [longs.length] }),
        numbers: Tensor.of(Float32Array.from(numbers), { shape: [numbers.length] }),
        strings: Tensor.of(strings, { dtype: 'string', shape: [strings.length] }),
      };
      const spec = { name: 'm', version: 3, signatureName: 's' };
      const found = fromBinary(PredictResponseSchema, Buffer.concat(writePredictResponse({ spec, outputs })));
      const of = (name: string) => found.outputs[name] as TensorProto;
      expect(of('longs').int64Val).toEqual(longs);
      expect(of('numbers').floatVal).toEqual(numbers);
      expect(of('strings').stringVal.map((bytes) => Buffer.from(bytes).toString())).toEqual(strings);
      expect(found.modelSpec?.versionChoice.value).toMatchObject({ value: 3n });
      const again = readTensorProto(toBinary(TensorProtoSchema, of('longs')), 'x', {
        bytes: 1e6,
        strings: 0,
      });
      expect([...(again.data as unknown as BigInt64Array)]).toEqual(longs);
    }),
  );
});

describe('a tensor', () => {
  test('repeats its last value, is zero without one, and ignores values that are too many', () => {
    const data = (fields: Fields) => Array.from(read({ dtype: DT_FLOAT, ...fields }).data as Float32Array);
    expect(data({ tensorShape: dims(4), floatVal: [1, 2] })).toEqual([1, 2, 2, 2]);
    expect(data({ tensorShape: dims(2, 1) })).toEqual([0, 0]);
    expect(data({ tensorShape: dims(1), floatVal: [5, 6] })).toEqual([5]);
    const words = read({ dtype: DT_STRING, tensorShape: dims(2), stringVal: [Buffer.from('a')] });
    expect(words.toArray()).toEqual(['a', 'a']);
  });

  test('has the same values unpacked, as old clients send them', () => {
    // dtype, a shape of [3], and three float_val fields of four bytes each.
    const one = [0x2d, 0, 0, 0x80, 0x3f];
    const bytes = Buffer.from([8, 1, 0x12, 4, 0x12, 2, 8, 3, ...one, ...one, ...one]);
    const tensor = readTensorProto(bytes, 'x', { bytes: 100, strings: 0 });
    expect(Array.from(tensor.data as Float32Array)).toEqual([1, 1, 1]);
  });

  test('that is larger than its request may have is refused before it is made', () => {
    expect(statusOf({ dtype: DT_FLOAT, tensorShape: dims(1 << 20) })).toBe('RESOURCE_EXHAUSTED');
    expect(statusOf({ dtype: DT_STRING, tensorShape: dims(1001) })).toBe('RESOURCE_EXHAUSTED');
  });

  test('without a dtype, a known shape or the right content is invalid', () => {
    const unknownRank = { ...dims(), unknownRank: true };
    const cases: readonly Fields[] = [
      { tensorShape: dims(1) },
      { dtype: 99 as never, tensorShape: dims(1) },
      { dtype: DT_FLOAT, tensorShape: unknownRank },
      { dtype: DT_FLOAT, tensorShape: dims(-1) },
      { dtype: DT_FLOAT, tensorShape: dims(2 ** 40, 2 ** 40, 0) },
      { dtype: DT_INT64, tensorShape: dims(2), tensorContent: new Uint8Array(8) },
    ];
    for (const fields of cases) expect(statusOf(fields)).toBe('INVALID_ARGUMENT');
  });

  test('has at most 254 dimensions, in however many parts its shape is sent', () => {
    const of = (dimensions: number) =>
      toBinary(
        TensorProtoSchema,
        create(TensorProtoSchema, { tensorShape: dims(...new Array<number>(dimensions).fill(1)) }),
      );
    const joined = (...parts: Uint8Array[]) =>
      readTensorProto(Buffer.concat([Buffer.from([8, DT_FLOAT]), ...parts]), 'x', { bytes: 100, strings: 0 });
    expect(joined(of(127), of(127)).rank).toBe(254);
    expect(() => joined(of(127), of(128))).toThrow(/more than 254 dimensions/);
  });
});

test('bytes that are no request give a coded error, and never more memory than the limits', () => {
  const valid = toBinary(
    PredictRequestSchema,
    create(PredictRequestSchema, {
      modelSpec: { name: 'm', signatureName: 's' },
      inputs: {
        a: { dtype: DT_FLOAT, tensorShape: dims(2), floatVal: [1, 2] },
        b: { dtype: DT_INT64, tensorShape: dims(2), int64Val: [1n, -2n] },
        c: { dtype: DT_STRING, tensorShape: dims(1), stringVal: [Buffer.from('word')] },
      },
      outputFilter: ['y'],
    }),
  );
  const changes = fc.array(fc.tuple(fc.nat(valid.length - 1), fc.nat(255)), { maxLength: 6 });
  const changed = changes.map((list) => {
    const bytes = Uint8Array.from(valid);
    for (const [at, byte] of list) bytes[at] = byte;
    return bytes;
  });
  const cut = fc.nat(valid.length).map((length) => valid.subarray(0, length));
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), changed, cut), (bytes) => {
      try {
        const tensors = Object.values(readInputs(readPredict(bytes).inputs, LIMITS));
        const size = tensors.reduce((sum, { byteLength }) => sum + byteLength, 0);
        expect(size).toBeLessThanOrEqual(LIMITS.maxTensorBytes);
      } catch (error) {
        expect(error).toBeInstanceOf(ServingError);
      }
    }),
    { numRuns: 3000 },
  );
});
