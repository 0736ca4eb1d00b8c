/** Strings, sparse tensors, sets, files in memory, hashes, records. */
import { bools, i32, i64, noise, type OpCase, op, t, text } from '../case.js';

const words = text(['shoal', 'of', 'Fish', '', 'größe', 'a rather longer string with more than 22 bytes']);
const sparse = [
  i64([
    [0, 1],
    [2, 0],
    [2, 2],
  ]),
  t([1, 2, 3]),
  i64([3, 3]),
] as const;
const example = (): Uint8Array => {
  // tf.train.Example { features { feature { key "a" value { float_list { value: 1.5 } } } } }, by hand.
  const feature = Uint8Array.from([0x12, 6, 0x0a, 4, 0, 0, 0xc0, 0x3f]);
  const entry = Uint8Array.from([0x0a, 1, 0x61, 0x12, feature.length, ...feature]);
  const features = Uint8Array.from([0x0a, entry.length, ...entry]);
  return Uint8Array.from([0x0a, features.length, ...features]);
};

export const strings: readonly OpCase[] = [
  op('StringUpper', [words]),
  op('StringUpper', [words], { encoding: 'utf-8' }),
  op('StringLower', [words]),
  op('StringLength', [words]),
  op('StringLength', [words], { unit: 'UTF8_CHAR' }),
  op('StringJoin', [[words, text('-'), words]], { separator: '+' }),
  op('StringStrip', [text([' a ', 'b\n'])]),
  op('StringSplit', [text(['a b', 'c']), text(' ')]),
  op('StringSplitV2', [text(['a,b', 'c']), text(',')], { maxsplit: 1 }),
  op('StringFormat', [[t([1, 2]), text('x')]], { template: '<%s|%s>', placeholder: '%s' }),
  op('StringNGrams', [text(['a', 'b', 'c']), i64([0, 3])], {
    separator: ' ',
    ngram_widths: [2],
    left_pad: '',
    right_pad: '',
    pad_width: 0,
    preserve_short_sequences: false,
  }),
  op('Substr', [words, i32(0), i32(0)]),
  op('Substr', [text(['abcdef', 'größe']), i32([1, 2]), i32([3, 2])], { unit: 'UTF8_CHAR' }),
  op('RegexReplace', [words, text('[aeiou]'), text('*')]),
  op('StaticRegexReplace', [words], { pattern: 'o', rewrite: '0', replace_global: false }),
  op('RegexFullMatch', [words, text('[a-z]+')]),
  op('StaticRegexFullMatch', [words], { pattern: '.*o.*' }),
  op(
    'ReduceJoin',
    [
      text([
        ['a', 'b'],
        ['c', 'd'],
      ]),
      i32(1),
    ],
    { separator: '/' },
  ),
  op('UnsortedSegmentJoin', [text(['a', 'b', 'c']), i32([0, 1, 0]), i32(2)], { separator: '-' }),
  op('AsString', [t([1.5, -2])], { precision: 2 }),
  op('AsString', [bools([true, false])]),
  op('AsString', [noise([3], -99, 99, 'int64')], { width: 5, fill: '0' }),
  op('StringToNumber', [text(['1.5', '-2e3'])]),
  op('StringToNumber', [text(['12', '-3'])], { out_type: 'int64' }),
  op('StringToHashBucket', [words], { num_buckets: 10 }),
  op('StringToHashBucketFast', [words], { num_buckets: 1000 }),
  op('StringToHashBucketStrong', [words], { num_buckets: 1000, key: [1, 2] }),
  op('Fingerprint', [noise([2, 3], -9, 9, 'int32'), text('farmhash64')]),
  op('EncodeBase64', [words], { pad: true }),
  op('DecodeBase64', [text(['YWJj', 'ZMO8'])]),
  op('DecodeRaw', [text(['abcd', 'efgh'])], { out_type: 'uint8' }),
  op('DecodeRaw', [text(['abcd'])], { out_type: 'int32', little_endian: false }),
  op('DecodePaddedRaw', [text(['abcd', 'ef']), i32(4)], { out_type: 'uint8' }),
  op('DecodeCSV', [text(['1,a', '2,']), [t([0]), text(['none'])]]),
  op('DecodeJSONExample', [text('{"features": {"feature": {"a": {"floatList": {"value": [1.5]}}}}}')]),
  op('UnicodeDecode', [text(['größe', 'a'])], { input_encoding: 'UTF-8' }),
  op('UnicodeEncode', [i32([97, 246]), i64([0, 2])], { output_encoding: 'UTF-8' }),
  op('UnicodeTranscode', [text('größe')], { input_encoding: 'UTF-8', output_encoding: 'UTF-16-BE' }),
  op('UnicodeScript', [i32([97, 0x3b1])]),
  op('ParseTensor', [text(new Uint8Array([8, 1, 18, 4, 18, 2, 8, 1, 42, 4, 0, 0, 192, 63]))], {
    out_type: 'float32',
  }),
  op('SerializeTensor', [t([1, 2, 3])]),
  op('ParseExampleV2', [t([example()], 'string'), text([]), text([]), text(['a']), text([]), [t([0])]], {
    num_sparse: 0,
    sparse_types: [],
    ragged_value_types: [],
    ragged_split_types: [],
    dense_shapes: [[1]],
  }),
  op('ParseSingleExample', [t(example(), 'string'), [t([0])]], {
    num_sparse: 0,
    sparse_keys: [],
    dense_keys: ['a'],
    sparse_types: [],
    dense_shapes: [[1]],
  }),
  op('DecodeCompressed', [text(['plain'])]),

  op('SparseToDense', [
    i64([
      [0, 1],
      [2, 0],
    ]),
    i64([3, 3]),
    t([5, 6]),
    t(0),
  ]),
  op('SparseTensorDenseMatMul', [...sparse, noise([3, 2])]),
  op('SparseTensorDenseAdd', [...sparse, noise([3, 3])]),
  op('SparseAdd', [...sparse, ...sparse, t(0)]),
  op('SparseReduceSum', [...sparse, i32([1])]),
  op('SparseReduceMax', [...sparse, i32([0])], { keep_dims: true }),
  op('SparseReorder', [
    i64([
      [2, 0],
      [0, 1],
    ]),
    t([5, 6]),
    i64([3, 3]),
  ]),
  op('SparseReshape', [
    i64([
      [0, 1],
      [2, 0],
    ]),
    i64([3, 3]),
    i64([9, -1]),
  ]),
  op('SparseSlice', [...sparse, i64([1, 0]), i64([2, 2])]),
  op('SparseSplit', [i64(1), ...sparse], { num_split: 2 }),
  op(
    'SparseConcat',
    [
      [sparse[0], sparse[0]],
      [sparse[1], sparse[1]],
      [sparse[2], sparse[2]],
    ],
    { concat_dim: 1 },
  ),
  op('SparseFillEmptyRows', [...sparse, t(-1)]),
  op('SparseSoftmax', [...sparse]),
  op('SparseDenseCwiseMul', [...sparse, noise([3, 3])]),
  op('SparseDenseCwiseDiv', [...sparse, noise([3, 3], 1, 2)]),
  op('SparseDenseCwiseAdd', [...sparse, noise([1, 3])]),
  op('SparseSparseMaximum', [...sparse, ...sparse]),
  op('SetSize', [
    i64([
      [0, 0],
      [0, 1],
      [1, 0],
    ]),
    i32([1, 2, 3]),
    i64([2, 2]),
  ]),
  op('DenseToDenseSetOperation', [i32([[1, 2, 3]]), i32([[2, 3, 4]])], { set_operation: 'intersection' }),
  op('RaggedRange', [i32([0, 5]), i32([3, 6]), i32([1, 1])]),
  op('RaggedTensorToSparse', [[i64([0, 2, 3])], t([1, 2, 3])]),
  op('RaggedTensorToTensor', [i64([2, 2]), t([1, 2, 3]), t(0), [i64([0, 2, 3])]], {
    row_partition_types: ['ROW_SPLITS'],
  }),
  op('RaggedGather', [[i64([0, 2, 3])], t([1, 2, 3]), i64([1, 0])], { OUTPUT_RAGGED_RANK: 1 }),
  op('EncodeWav', [noise([8, 1], -0.9, 0.9), i32(8000)]),
  op('AudioSpectrogram', [noise([16, 1])], { window_size: 8, stride: 4 }),
  op('EncodePng', [noise([4, 4, 3], 0, 255, 'uint8')]),
];
