/** The gradient of a concatenation: each input gets its own range, of dense and sparse gradients. */
import type { Operation, Output } from '../../graph/operation.js';
import type { Operand } from '../../ops/build.js';
import * as raw from '../../ops/generated/index.js';
import type { SliceGradientFunction } from '../gradient-function.js';
import { type Gradient, IndexedSlices } from '../indexed-slices.js';
import { constantInts, int32, shapeOf } from '../pieces.js';

/** ConcatV2 takes its axis last, Concat first. */
const axisPlace = (op: Operation): number => (op.type === 'Concat' ? 0 : op.inputs.length - 1);

export const concatGradient: SliceGradientFunction = {
  slices: (op, [grad]) => {
    const place = axisPlace(op);
    const given = op.inputs[place] as Output;
    const axis = given.dtype === 'int32' ? given : raw.cast(given, { dstT: 'int32' });
    const values = op.inputs.filter((_, i) => i !== place);
    const parts = grad === undefined ? values.map(() => null) : cut(values, axis, grad);
    return place === 0 ? [null, ...parts] : [...parts, null];
  },
};

function cut(values: readonly Output[], axis: Output, grad: Gradient): readonly Gradient[] {
  if (values.length === 1) return [grad];
  if (!(grad instanceof IndexedSlices)) return cutDense(values, axis, grad);
  const at = constantInts(axis)?.[0];
  return at === 0 ? cutRows(values, grad) : cutDense(values, axis, grad.toDense());
}

function cutDense(values: readonly Output[], axis: Output, grad: Output): Output[] {
  return raw.splitV(grad, sizesAlong(values, axis), axis, { numSplit: values.length });
}

function sizesAlong(values: readonly Output[], axis: Output): Operand {
  const at = constantInts(axis)?.[0];
  const sizes = at === undefined ? [] : values.map(({ shape }) => shape?.at(at) ?? null);
  if (sizes.length > 0 && sizes.every((size) => size !== null)) return int32(sizes);
  const table = raw.pack(raw.shapeN(values), { axis: 1 });
  const row = raw.floorMod(axis, raw.rank(values[0] as Output));
  return raw.gatherV2(table, row, int32(0));
}

/** Splits the rows of a concatenated table among its parts. */
function cutRows(values: readonly Output[], grad: IndexedSlices): IndexedSlices[] {
  const { dtype } = grad.indices;
  const sizes = values.map((value) => {
    const rows = value.shape?.[0];
    return typeof rows === 'number'
      ? raw.cast(int32(rows), { dstT: dtype })
      : raw.cast(raw.gatherV2(raw.shape(value), int32(0), int32(0)), { dstT: dtype });
  });
  let start: Output = raw.cast(int32(0), { dstT: dtype });
  return values.map((value, i) => {
    const end = raw.addV2(start, sizes[i] as Output);
    const inside = raw.logicalAnd(raw.greaterEqual(grad.indices, start), raw.less(grad.indices, end));
    const mine = raw.squeeze(raw.whereOp(inside), { squeezeDims: [1] });
    const slices = new IndexedSlices(
      raw.gatherV2(grad.values, mine, int32(0)),
      raw.sub(raw.gatherV2(grad.indices, mine, int32(0)), start),
      shapeOf(value, 'int64'),
    );
    start = end;
    return slices;
  });
}
