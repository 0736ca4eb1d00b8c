/** Gradients of ops that move elements: reshape, transpose, concatenate, split, pad, repeat, reverse. */
import { ShoalError } from '../../../base/errors/errors.js';
import type { Operation, Output } from '../../graph/operation.js';
import { build, type Operand } from '../../ops/build.js';
import * as raw from '../../ops/generated/index.js';
import { isFullyDefined } from '../../tensor/shape.js';
import type { GradientFunction, GradientTable, SliceGradientFunction } from '../gradient-function.js';
import {
  allAxes,
  allGrads,
  constantInts,
  firstGradient,
  firstOnly,
  indexType,
  inputOf,
  int32,
  reshapeLike,
  sameAttrs,
  shapeOf,
  single,
} from '../pieces.js';
import { unbroadcast } from './broadcast.js';
import { concatGradient } from './concat.js';

const reshaped = firstOnly((op, grad) => reshapeLike(grad, inputOf(op, 0)));

/** For identity ops: the gradient is passed through unchanged, sparse or not. */
const passed: SliceGradientFunction = {
  slices: (op, [grad]) => op.inputs.map((_, i) => (i === 0 ? grad : null)),
};

/** For permutations that are their own inverse: the same op is applied to the gradient. */
const again = (attrs: readonly string[]): GradientFunction =>
  firstOnly((op, grad) => build(op.type, [grad, ...op.inputs.slice(1)], sameAttrs(op, attrs), {}).output());

/** The inverse is an op of another type with the same other inputs. */
const undone = (type: string, attrs: readonly string[]): GradientFunction =>
  firstOnly((op, grad) => build(type, [grad, ...op.inputs.slice(1)], sameAttrs(op, attrs), {}).output());

function invertedPermutation(permutation: Output): Operand {
  const order = constantInts(permutation);
  if (!order) return raw.invertPermutation(permutation);
  const inverse = new Array<number>(order.length);
  for (const [to, from] of order.entries()) inverse[from < 0 ? from + order.length : from] = to;
  return int32(inverse);
}

const STRIDED = ['begin_mask', 'end_mask', 'ellipsis_mask', 'new_axis_mask', 'shrink_axis_mask'] as const;

const stridedSlice = firstOnly((op, grad) => {
  const [x, begin, end, strides] = op.inputs as [Output, Output, Output, Output];
  const shape = shapeOf(x, indexType(begin));
  return build('StridedSliceGrad', [shape, begin, end, strides, grad], sameAttrs(op, STRIDED)).output();
});

const slice = firstOnly((op, grad) => {
  const [x, begin] = op.inputs as [Output, Output];
  const start = constantInts(begin);
  if (start && isFullyDefined(x.shape) && isFullyDefined(grad.shape)) {
    const [whole, part] = [x.shape, grad.shape];
    const paddings = start.flatMap((at, axis) => [at, (whole[axis] as number) - (part[axis] as number) - at]);
    return raw.pad(grad, raw.reshape(int32(paddings), int32([start.length, 2])));
  }
  const dtype = indexType(begin);
  const after = raw.sub(raw.sub(shapeOf(x, dtype), begin), shapeOf(grad, dtype));
  return raw.pad(grad, raw.pack([begin, after], { axis: 1 }));
});

/** The gradient without the padding. */
const unpadded = firstOnly((op, grad) => {
  const [x, paddings] = op.inputs as [Output, Output];
  const before = raw.squeeze(raw.slice(paddings, int32([0, 0]), int32([-1, 1])), {
    squeezeDims: [1],
  });
  return raw.slice(grad, before, shapeOf(x, indexType(paddings)));
});

/** The copies of each element are moved to separate axes and summed. */
const tile = firstOnly((op, grad) => {
  const [x, multiples] = op.inputs as [Output, Output];
  const reps = constantInts(multiples);
  if (reps && isFullyDefined(x.shape)) {
    const axes = reps.map((_, axis) => axis * 2);
    const apart = reps.flatMap((count, axis) => [count, x.shape?.[axis] as number]);
    return raw.sum(raw.reshape(grad, int32(apart)), int32(axes));
  }
  const shape = shapeOf(x, indexType(multiples));
  const apart = raw.reshape(raw.pack([multiples, shape], { axis: 1 }), int32([-1]));
  const summed = raw.sum(raw.reshape(grad, apart), raw.range(int32(0), raw.size(apart), int32(2)));
  return summed.setShape(x.shape);
});

/** Each gradient goes to the position from which its value was taken. */
const topK: GradientFunction = single((op, grad) => {
  const x = inputOf(op, 0);
  const places = op.output(1);
  const shape = raw.shape(x);
  const width = raw.gatherV2(shape, raw.sub(raw.rank(x), int32(1)), int32(0));
  const rows = raw.prod(
    raw.slice(shape, int32([0]), raw.expandDims(raw.sub(raw.rank(x), int32(1)), int32(0))),
    int32(0),
  );
  const starts = raw.mul(raw.range(int32(0), rows, int32(1)), width);
  const count = raw.gatherV2(raw.shape(places), raw.sub(raw.rank(x), int32(1)), int32(0));
  const table = raw.reshape(raw.cast(places, { dstT: 'int32' }), raw.pack([rows, count]));
  const ids = raw.addV2(table, raw.expandDims(starts, int32(1)));
  const flat = raw.unsortedSegmentSum(
    raw.reshape(grad, int32([-1])),
    raw.reshape(ids, int32([-1])),
    raw.size(x),
  );
  return firstGradient(op, reshapeLike(flat, x));
});

/** Patches overlap: each element of the image collects the gradients of all its copies. */
const imagePatches = firstOnly((op, grad) => {
  const x = inputOf(op, 0);
  const image = raw.shape(x);
  const [batch, height, width, channels] = raw.unpack(image, { num: 4 }) as [Output, Output, Output, Output];
  const pixels = raw.mul(height, width);
  // Indices start at 1: the zeros that padding adds become -1, which segment sums ignore.
  const numbers = raw.range(int32(1), raw.addV2(pixels, int32(1)), int32(1));
  const attrs = sameAttrs(op, ['ksizes', 'strides', 'rates', 'padding']);
  const numbered = raw.reshape(numbers, raw.pack([int32(1), height, width, int32(1)]));
  const copies = build('ExtractImagePatches', [numbered], attrs).output();
  const ids = raw.sub(raw.reshape(copies, int32([-1])), int32(1));
  const apart = raw.reshape(grad, raw.pack([batch, raw.size(ids), channels]));
  const rows = raw.transpose(apart, int32([1, 0, 2]));
  const sums = raw.unsortedSegmentSum(rows, ids, pixels);
  return raw.reshape(raw.transpose(sums, int32([1, 0, 2])), image);
});

function preventGradient(op: Operation): never {
  throw new ShoalError(
    'SHOAL_NO_GRADIENT',
    `PreventGradient forbids a gradient through ${op}: ${op.attr('message')}`,
    {
      op: op.name,
    },
  );
}

/** Ops that are not differentiable in any input. */
const CONSTANT = [
  'BroadcastArgs',
  'BroadcastGradientArgs',
  'ConcatOffset',
  'Const',
  'EditDistance',
  'InvertPermutation',
  'LinSpace',
  'OneHot',
  'OnesLike',
  'Placeholder',
  'Range',
  'Rank',
  'Shape',
  'ShapeN',
  'Size',
  'StopGradient',
  'Where',
  'ZerosLike',
] as const;

export const arrayGradients: GradientTable = {
  ...Object.fromEntries(CONSTANT.map((type) => [type, null])),

  Identity: passed,
  Snapshot: passed,
  DebugIdentity: passed,
  DebugIdentityV2: passed,
  EnsureShape: passed,
  PlaceholderWithDefault: passed,
  Print: passed,
  IdentityN: { slices: (_op, grads) => grads },
  PreventGradient: preventGradient,
  CheckNumerics: firstOnly((op, grad) =>
    raw.checkNumerics(grad, { message: `In the gradient of ${op.name}: ${op.attr('message')}` }),
  ),

  Reshape: reshaped,
  ExpandDims: reshaped,
  Squeeze: reshaped,
  Transpose: firstOnly((op, grad) => raw.transpose(grad, invertedPermutation(inputOf(op, 1)))),
  ConjugateTranspose: firstOnly((op, grad) =>
    raw.conjugateTranspose(grad, invertedPermutation(inputOf(op, 1))),
  ),

  ConcatV2: concatGradient,
  Concat: concatGradient,
  Pack: single((op, grad) => raw.unpack(grad, { num: op.inputs.length, axis: op.attr('axis') as number })),
  Unpack: (op, grads) => [raw.pack(allGrads(op, grads), { axis: op.attr('axis') as number })],
  Split: (op, grads) => [null, raw.concatV2(allGrads(op, grads), inputOf(op, 0))],
  SplitV: (op, grads) => [raw.concatV2(allGrads(op, grads), inputOf(op, 2)), null, null],

  Slice: slice,
  StridedSlice: stridedSlice,
  StridedSliceGrad: single((op, grad) => {
    const [, begin, end, strides] = op.inputs as [Output, Output, Output, Output];
    const attrs = sameAttrs(op, STRIDED);
    return [null, null, null, null, build('StridedSlice', [grad, begin, end, strides], attrs).output()];
  }),
  TensorStridedSliceUpdate: single((op, grad) => {
    const [, begin, end, strides, value] = op.inputs as [Output, Output, Output, Output, Output];
    const attrs = sameAttrs(op, STRIDED);
    const zeros = raw.zerosLike(value);
    return [
      build('TensorStridedSliceUpdate', [grad, begin, end, strides, zeros], attrs).output(),
      null,
      null,
      null,
      reshapeLike(build('StridedSlice', [grad, begin, end, strides], attrs).output(), value),
    ];
  }),
  Pad: unpadded,
  PadV2: unpadded,
  MirrorPad: undone('MirrorPadGrad', ['mode']),
  MirrorPadGrad: undone('MirrorPad', ['mode']),
  Tile: tile,
  BroadcastTo: firstOnly((op, grad) => unbroadcast(inputOf(op, 0), op.output(), grad)),
  Fill: single((_op, grad) => [null, raw.sum(grad, allAxes(grad))]),
  Reverse: again([]),
  ReverseV2: again([]),
  ReverseSequence: again(['seq_dim', 'batch_dim']),
  Roll: single((op, grad) => [raw.roll(grad, raw.neg(inputOf(op, 1)), inputOf(op, 2)), null, null]),

  SpaceToBatch: undone('BatchToSpace', ['block_size']),
  BatchToSpace: undone('SpaceToBatch', ['block_size']),
  SpaceToBatchND: undone('BatchToSpaceND', []),
  BatchToSpaceND: undone('SpaceToBatchND', []),
  SpaceToDepth: undone('DepthToSpace', ['block_size', 'data_format']),
  DepthToSpace: undone('SpaceToDepth', ['block_size', 'data_format']),
  ExtractImagePatches: imagePatches,
  TopKV2: topK,
};
