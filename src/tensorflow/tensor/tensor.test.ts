import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Graph } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { liveHandles } from '../native/handle.js';
import { Session } from '../session/session.js';
import { DTYPES, type DType } from './dtype.js';
import { sizeOf } from './shape.js';
import { COPY_LIMIT, Tensor, toTensor } from './tensor.js';

let graph: Graph;
let session: Session;
const placeholders = new Map<DType, Output>();

beforeAll(() => {
  graph = new Graph();
  session = Session.open({ graph });
});
afterAll(() => session.close());

/** Feeds the tensor to an Identity op and fetches it. */
function throughIdentity(tensor: Tensor): Tensor {
  const { dtype } = tensor;
  const known = placeholders.get(dtype);
  const fed = known ?? graph.op('Placeholder', [], { dtype, shape: null }).output();
  if (!known) graph.op('Identity', [fed], {}, { name: `same_${dtype}` });
  placeholders.set(dtype, fed);
  return session.runSync(`same_${dtype}`, { feeds: [[fed, tensor]] });
}

/** The value of a constant op. */
function throughConstant(tensor: Tensor): Tensor {
  return session.runSync(graph.op('Const', [], { value: tensor, dtype: tensor.dtype }).output());
}

const opaque: readonly DType[] = (Object.keys(DTYPES) as DType[]).filter(
  (dtype) => DTYPES[dtype].kind === 'opaque',
);
const readable = (Object.keys(DTYPES) as DType[]).filter((dtype) => !opaque.includes(dtype));

const SAMPLES: Partial<Record<DType, unknown[]>> = {
  float32: [0, -0, 1.5, -3.25, 2 ** -149, 3.4028234663852886e38, Number.POSITIVE_INFINITY, Number.NaN],
  float64: [0, -0, Math.PI, 5e-324, -1.7976931348623157e308, Number.NEGATIVE_INFINITY, Number.NaN],
  float16: [0, -0, 1.5, 65504, 2 ** -24, Number.POSITIVE_INFINITY, Number.NaN],
  bfloat16: [0, -0, 1.5, 2 ** 127, 2 ** -133, Number.NEGATIVE_INFINITY, Number.NaN],
  int64: [0n, 1n, -1n, 2n ** 63n - 1n, -(2n ** 63n)],
  uint64: [0n, 1n, 2n ** 64n - 1n],
  int32: [0, -1, 2 ** 31 - 1, -(2 ** 31)],
  uint32: [0, 2 ** 32 - 1],
  int16: [0, -32768, 32767],
  uint16: [0, 65535],
  int8: [0, -128, 127],
  uint8: [0, 255],
  int4: [-8, 7],
  uint4: [0, 15],
  int2: [-2, 1],
  uint2: [0, 3],
  bool: [true, false],
  string: ['', 'a', 'é', '\uFEFFmark', 'x'.repeat(22), 'y'.repeat(23), 'z'.repeat(100_000), 'nul\0inside'],
  complex64: [
    { re: 1, im: -2.5 },
    { re: 0, im: 0 },
  ],
  complex128: [
    { re: Math.PI, im: -Math.E },
    { re: -0, im: 1e300 },
  ],
  qint8: [-128, 127],
  quint8: [0, 255],
  qint16: [-32768, 32767],
  quint16: [0, 65535],
  qint32: [-(2 ** 31), 2 ** 31 - 1],
};

describe('every dtype that JavaScript can read', () => {
  test('has samples in this test', () => {
    expect(readable.filter((dtype) => !SAMPLES[dtype])).toEqual([]);
  });

  test.each(readable)('%s keeps its values through an op of the graph', (dtype) => {
    const tensor = Tensor.of(SAMPLES[dtype] as never, { dtype });
    const back = throughIdentity(tensor);
    expect(back).toMatchObject({ dtype, shape: tensor.shape });
    expect(back.toArray()).toEqual(SAMPLES[dtype]);
  });

  test.each(readable)('%s keeps its values through a constant', (dtype) => {
    const back = throughConstant(Tensor.of(SAMPLES[dtype] as never, { dtype }));
    expect(back.toArray()).toEqual(SAMPLES[dtype]);
  });

  test.each(readable)('%s has zeros', (dtype) => {
    const zeros = Tensor.zeros([2, 1], dtype);
    expect(throughIdentity(zeros)).toMatchObject({ dtype, shape: [2, 1] });
    expect(throughIdentity(zeros).toArray()).toEqual(zeros.toArray());
  });
});

describe('small floats', () => {
  const words = Uint8Array.from([0, 1, 0x3c, 0x7e]);
  test.each(opaque.filter((dtype) => DTYPES[dtype].array))('%s are raw words', (dtype) => {
    expect(throughIdentity(Tensor.of(words, { dtype, shape: [4] })).data).toEqual(words);
    expect(() => Tensor.of(1.5, { dtype })).toThrow('raw bytes only');
  });
});

describe('the type of a literal', () => {
  test.each([
    [1, 'float32'],
    [[[1.5]], 'float32'],
    [1n, 'int64'],
    [true, 'bool'],
    [['a'], 'string'],
    [{ re: 1, im: 2 }, 'complex64'],
    [[], 'float32'],
    [new Float64Array(1), 'float64'],
    [new Int32Array(1), 'int32'],
    [new BigInt64Array(1), 'int64'],
    [new BigUint64Array(1), 'uint64'],
    [new Uint8ClampedArray(1), 'uint8'],
    [new Int8Array(1), 'int8'],
    [new Int16Array(1), 'int16'],
    [new Uint16Array(1), 'uint16'],
    [new Uint32Array(1), 'uint32'],
    [[new Float32Array(2), new Float32Array(2)], 'float32'],
  ] as const)('of %o is %s', (value, dtype) => {
    expect(Tensor.of(value as never).dtype).toBe(dtype);
  });

  test.each([[undefined], [null], [{}], [[null]], [() => 1], [Symbol('s')]])('of %o is an error', (value) => {
    expect(() => Tensor.of(value as never)).toThrowError(
      expect.objectContaining({ code: 'SHOAL_INVALID_ARGUMENT' }),
    );
  });
});

describe('nested arrays', () => {
  test.each([
    [3, []],
    [[1, 2], [2]],
    [
      [[1], [2], [3]],
      [3, 1],
    ],
    [
      [[], []],
      [2, 0],
    ],
    [[[[[[[[[1, 2]]]]]]]], [1, 1, 1, 1, 1, 1, 1, 2]],
    [
      [new Float32Array(3), [1, 2, 3]],
      [2, 3],
    ],
  ])('of %j have shape %j', (value, shape) => {
    const tensor = Tensor.of(value as never);
    expect(tensor.shape).toEqual(shape);
    expect(throughIdentity(tensor).shape).toEqual(shape);
  });

  test('with ragged rows report the differing rows', () => {
    expect(() => Tensor.of([[1, 2], [3]])).toThrow('row 0 is [2], row 1 is [1]');
    expect(() => Tensor.of([1, [2]])).toThrow('row 0 is [], row 1 is [1]');
  });

  test('that do not match the shape report both counts', () => {
    expect(() => Tensor.of([1, 2, 3], { shape: [2, 2] })).toThrow('shape [2, 2] has 4 elements; got 3');
  });

  test.each([[[-1]], [[1.5]], [[Number.NaN]]])('cannot have the shape %j', (shape) => {
    expect(() => Tensor.of([], { shape })).toThrow('not a non-negative integer');
  });
});

describe('ranges', () => {
  test.each([
    ['int8', 128],
    ['uint8', -1],
    ['int32', 2 ** 31],
    ['uint32', 2 ** 32],
    ['int16', 0.5],
    ['int4', 8],
    ['uint2', 4],
    ['int32', Number.NaN],
    ['int64', 2n ** 63n],
    ['uint64', -1n],
  ] as const)('%s does not hold %o', (dtype, value) => {
    expect(() => Tensor.of(value, { dtype })).toThrow(
      new RegExp(`${value} is out of range for ${dtype}: must be an integer from -?\\d+ to \\d+`),
    );
  });

  test('int64 accepts exact integers only', () => {
    expect(Tensor.of([1, -(2 ** 53) + 1], { dtype: 'int64' }).toArray()).toEqual([1n, -(2n ** 53n) + 1n]);
    expect(() => Tensor.of(2 ** 53, { dtype: 'int64' })).toThrow(
      expect.objectContaining({ hint: expect.stringMatching(/Pass a BigInt/) }),
    );
  });

  test.each([
    ['float32', 'one'],
    ['float32', true],
    ['bool', 2],
    ['string', 1],
    ['int64', 'a'],
    ['complex64', 'i'],
  ] as const)('%s does not take %j', (dtype, value) => {
    expect(() => Tensor.of(value, { dtype })).toThrow(`cannot be an element of a ${dtype} tensor`);
  });

  test('typed arrays that are used without conversion are checked if their words have invalid values', () => {
    expect(() => Tensor.of(Uint8Array.from([0, 2]), { dtype: 'bool' })).toThrow('2 is out of range for bool');
    expect(() => Tensor.of(Int8Array.from([8]), { dtype: 'int4' })).toThrow('8 is out of range for int4');
  });

  test('an unknown dtype is an error that lists the valid ones', () => {
    expect(() => Tensor.of(1, { dtype: 'float31' as DType })).toThrow(/Unknown data type 'float31'.*float32/);
  });
});

describe('strings', () => {
  const bytes = Uint8Array.from({ length: 300 }, (_, i) => i % 256);

  test('that are not UTF-8 are preserved byte for byte', () => {
    const back = throughIdentity(
      Tensor.of([bytes, bytes.subarray(0, 22), new Uint8Array(0)], { dtype: 'string' }),
    );
    expect(back.shape).toEqual([3]);
    expect(back.bytes()).toEqual([bytes, bytes.slice(0, 22), new Uint8Array(0)]);
  });

  test('of every length around the limit of inline storage', () => {
    const texts = Array.from({ length: 60 }, (_, length) => 'é'.repeat(length >> 1) + 'x'.repeat(length % 2));
    expect(throughIdentity(Tensor.of(texts)).toArray()).toEqual(texts);
  });

  test('of many megabytes', () => {
    const large = 'shoal '.repeat(1 << 19);
    expect(throughIdentity(Tensor.of(large)).item()).toBe(large);
  });

  test('in an empty tensor', () => {
    expect(throughIdentity(Tensor.of([], { dtype: 'string', shape: [0, 3] }))).toMatchObject({
      shape: [0, 3],
    });
  });

  test('have no typed array, other dtypes no byte strings', () => {
    expect(() => Tensor.of('a').data).toThrow(
      expect.objectContaining({ hint: expect.stringMatching(/Use toArray\(\)/) }),
    );
    expect(() => Tensor.of(1).bytes()).toThrow('bytes() is for string tensors');
  });
});

describe('typed arrays', () => {
  test('of the dtype itself are used without conversion', () => {
    const own = Float32Array.from([1, 2, 3, 4]);
    const tensor = Tensor.of(own, { shape: [2, 2] });
    expect(tensor.data).toBe(own);
  });

  test('of another type are converted and checked', () => {
    expect(Tensor.of(Float32Array.from([1, 2]), { dtype: 'int32' }).data).toEqual(Int32Array.from([1, 2]));
    expect(() => Tensor.of(Float32Array.from([1.5]), { dtype: 'int32' })).toThrow('out of range');
  });

  test('of half words are the words', () => {
    expect(Tensor.of(Uint16Array.from([0x3c00]), { dtype: 'float16' }).toArray()).toEqual([1]);
  });

  test('of complex numbers are interleaved if the shape requires it', () => {
    const pairs = Float32Array.from([1, 2, 3, 4]);
    expect(Tensor.of(pairs, { dtype: 'complex64', shape: [2] }).toArray()).toEqual([
      { re: 1, im: 2 },
      { re: 3, im: 4 },
    ]);
    expect(Tensor.of(pairs, { dtype: 'complex64' }).shape).toEqual([4]);
  });
});

describe('one element', () => {
  test('is returned by item() and number()', () => {
    expect(Tensor.of([[5n]]).item()).toBe(5n);
    expect(Tensor.of([[5n]]).number()).toBe(5);
    expect(Tensor.of(true).number()).toBe(1);
  });
  test('is required by item()', () => {
    expect(() => Tensor.of([1, 2]).item()).toThrow('shape [2]');
  });
  test('that is too large for a number is an error', () => {
    expect(() => Tensor.of(2n ** 60n).number()).toThrow('use item()');
    expect(() => Tensor.of('1').number()).toThrow('not a number');
  });
});

test('a reshaped tensor has the same elements', () => {
  const tensor = Tensor.of([1, 2, 3, 4, 5, 6]);
  expect(tensor.reshape([2, 3]).toArray()).toEqual([
    [1, 2, 3],
    [4, 5, 6],
  ]);
  expect(() => tensor.reshape([4])).toThrow('6 elements do not fill shape [4]');
});

test('toTensor passes tensors through and checks their type', () => {
  const tensor = Tensor.of(1);
  expect(toTensor(tensor)).toBe(tensor);
  expect(() => toTensor(tensor, { dtype: 'int32' })).toThrow('Expected a int32 tensor');
});

describe("a tensor in TensorFlow's memory", () => {
  const size = COPY_LIMIT; // of float32: four times the limit
  const fetched = () => throughIdentity(Tensor.of(Float32Array.from({ length: size }, (_, i) => i)));

  test('is counted until it is disposed', () => {
    const before = liveHandles().tensor;
    const tensor = fetched();
    expect(liveHandles().tensor).toBe(before + 1);
    tensor.dispose();
    tensor.dispose();
    expect(liveHandles().tensor).toBe(before);
  });

  test('used after dispose throws and describes itself', () => {
    const tensor = fetched();
    tensor.dispose();
    expect(() => tensor.data).toThrow('This tensor was disposed; created by a run of same_float32:0');
    expect(() => tensor.toArray()).toThrowError(expect.objectContaining({ code: 'SHOAL_DISPOSED' }));
    expect(() => throughIdentity(tensor)).toThrowError(expect.objectContaining({ code: 'SHOAL_DISPOSED' }));
  });

  test('lends bytes that stay valid after a dispose and are empty once returned', () => {
    const before = liveHandles().tensor;
    const tensor = fetched();
    const { bytes, giveBack } = tensor.lendBytes(8, 24);
    tensor.dispose();
    expect([...new Float32Array(bytes.slice().buffer)]).toEqual([2, 3, 4, 5]);
    giveBack();
    expect(bytes).toHaveLength(0);
    expect(liveHandles().tensor).toBeLessThanOrEqual(before);
    const small = Tensor.of([1, 2, 3], { dtype: 'int32' });
    expect([...small.lendBytes(4, 8).bytes]).toEqual([2, 0, 0, 0]);
  });

  test('holds bytes past a dispose, also when an array was taken from it', () => {
    const before = liveHandles().tensor;
    const tensor = fetched();
    expect(tensor.data).toHaveLength(size);
    const held = tensor.holdBytes();
    tensor.dispose();
    for (const start of [8, 16]) {
      const { bytes, giveBack } = held.lend(start, start + 4);
      expect(new Float32Array(bytes.slice().buffer)[0]).toBe(start / 4);
      giveBack();
    }
    held.letGo();
    expect(liveHandles().tensor).toBeLessThanOrEqual(before);
    expect(() => tensor.holdBytes()).toThrowError(expect.objectContaining({ code: 'SHOAL_DISPOSED' }));
  });

  test('empties the arrays taken from it when it is disposed', () => {
    const tensor = fetched();
    const { data } = tensor;
    expect(data).toHaveLength(size);
    expect(data[size - 1]).toBe(size - 1);
    tensor.dispose();
    expect(data).toHaveLength(0);
  });

  test('shares its memory with reshaped tensors', () => {
    const tensor = fetched();
    const flat = tensor.reshape([2, size / 2]);
    expect(throughIdentity(flat).shape).toEqual([2, size / 2]);
    tensor.dispose();
    expect(() => flat.data).toThrowError(expect.objectContaining({ code: 'SHOAL_DISPOSED' }));
  });

  test('may be disposed during a run that it was fed to', async () => {
    const before = liveHandles().tensor;
    const fed = placeholders.get('float32') as Output;
    const sum = graph
      .op('Sum', [
        fed,
        graph.op('Const', [], { value: Tensor.of(0, { dtype: 'int32' }), dtype: 'int32' }).output(),
      ])
      .output();
    const runs = Array.from({ length: 20 }, () => {
      using tensor = fetched();
      return session.run(sum, { feeds: [[fed, tensor]] });
    });
    const expected = (size * (size - 1)) / 2;
    for (const run of runs) expect((await run).number() / expected).toBeCloseTo(1, 4);
    // Fewer if tensors of other tests were collected meanwhile.
    expect(liveHandles().tensor).toBeLessThanOrEqual(before);
  });

  test('is fed again without a copy', () => {
    const first = fetched();
    const second = throughIdentity(first);
    expect(second.data[7]).toBe(7);
    first.dispose();
    expect(second.data[7]).toBe(7);
    second.dispose();
  });

  test('that is small is copied and needs no dispose', () => {
    const before = liveHandles().tensor;
    const tensor = throughIdentity(Tensor.of([1, 2]));
    tensor.dispose();
    expect(tensor.toArray()).toEqual([1, 2]);
    expect(liveHandles().tensor).toBe(before);
  });
});

test('a resource is a reference whose elements cannot be read', async () => {
  const handle = graph.op('VarHandleOp', [], { dtype: 'float32', shape: [] }).output();
  const tensor = await session.run(handle);
  expect(tensor.dtype).toBe('resource');
  expect(() => tensor.toArray()).toThrow('a reference into TensorFlow');
  tensor.dispose();
  expect(() => Tensor.of(1, { dtype: 'resource' })).toThrow('cannot be created from JavaScript values');
});

describe('any nested value', () => {
  const shapes = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 5 });
  const leaves: Partial<Record<DType, fc.Arbitrary<unknown>>> = {
    float32: fc.float(),
    float64: fc.double(),
    int32: fc.integer(),
    int64: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    uint64: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    uint8: fc.integer({ min: 0, max: 255 }),
    bool: fc.boolean(),
    string: fc.string({ unit: 'grapheme', maxLength: 40 }),
    complex128: fc.record({ re: fc.double(), im: fc.double() }, { noNullPrototype: true }),
  };
  const nest = (flat: readonly unknown[], shape: readonly number[]): unknown => {
    if (shape.length === 0) return flat[0];
    const [rows, ...rest] = shape as [number, ...number[]];
    const step = sizeOf(rest);
    return Array.from({ length: rows }, (_, i) => nest(flat.slice(i * step, (i + 1) * step), rest));
  };

  test.each(Object.keys(leaves) as DType[])('of %s round-trips, with any shape', (dtype) => {
    const values = shapes.chain((shape) => {
      const size = sizeOf(shape);
      return fc
        .array(leaves[dtype] as fc.Arbitrary<unknown>, { minLength: size, maxLength: size })
        .map((flat) => ({ shape, value: nest(flat, shape) }));
    });
    fc.assert(
      fc.property(values, ({ shape, value }) => {
        const back = throughIdentity(Tensor.of(value as never, { dtype, shape }));
        expect(back.shape).toEqual(shape);
        expect(back.toArray()).toEqual(value);
      }),
      { numRuns: 60 },
    );
  });
});

describe('an allocated tensor', () => {
  test.each([10, 100_000])('accepts bytes at any offset: %i elements', (count) => {
    using tensor = Tensor.allocate([count], 'int32', { lazy: true });
    const bytes = new Uint8Array(Int32Array.from({ length: count }, (_, i) => i).buffer);
    tensor.setBytes(bytes.subarray(7), 7);
    tensor.setBytes(bytes.subarray(0, 7), 0);
    expect(tensor.byteLength).toBe(4 * count);
    expect(tensor.data.every((value, i) => value === i)).toBe(true);
    // Also through an existing view.
    tensor.setBytes(new Uint8Array([1, 0, 0, 0]), 4 * (count - 1));
    expect(tensor.data[count - 1]).toBe(1);
    expect(() => tensor.setBytes(bytes, 1)).toThrow(/are outside/);
  });
});
