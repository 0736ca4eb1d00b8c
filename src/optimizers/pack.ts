/**
 * Small gradients on their way to one ps travel together. Each tensor that goes from one task to another is a call
 * of its own, and for a small one the call costs far more than the bytes do. Values are not touched.
 */
import { type Gradient, IndexedSlices } from '../gradients/index.js';
import type { Graph } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { constant } from '../ops/creation.js';
import * as raw from '../ops/generated/index.js';
import { DTYPES } from '../tensor/dtype.js';
import { isFullyDefined, type Shape, sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import type { Variable } from '../variables/variable.js';

type Pair = readonly [Gradient, Variable];

/** Above this a tensor is better sent by itself: joining copies it. */
const SMALL_BYTES = 64 << 10;

/** The pairs in the same order; small gradients that go the same way come out of one tensor there. */
export function packTravellers(graph: Graph, pairs: readonly Pair[]): Pair[] {
  const ways = new Map<string, number[]>();
  for (const [i, pair] of pairs.entries()) {
    const way = wayOf(pair);
    if (way !== undefined) ways.set(way, [...(ways.get(way) ?? []), i]);
  }
  const packed = [...pairs];
  for (const members of ways.values()) {
    if (members.length < 2) continue;
    const own = members.map((i) => pairs[i] as readonly [Output, Variable]);
    for (const [i, gradient] of packTogether(graph, own).entries()) {
      const at = members[i] as number;
      packed[at] = [gradient, (pairs[at] as Pair)[1]];
    }
  }
  return packed;
}

/** From where to where, and as what, a small dense gradient travels; undefined for all others. */
function wayOf([gradient, variable]: Pair): string | undefined {
  if (gradient instanceof IndexedSlices || gradient.dtype !== variable.dtype) return undefined;
  const [from, to] = [gradient.op.device, variable.device];
  if (from === '' || to === '' || from === to) return undefined;
  const shape = shapeOf(variable);
  if (shape === undefined || sizeOf(shape) * DTYPES[variable.dtype].size > SMALL_BYTES) return undefined;
  return `${from} ${to} ${variable.dtype}`;
}

function packTogether(graph: Graph, pairs: readonly (readonly [Output, Variable])[]): Output[] {
  const [[gradient, beside]] = pairs as [readonly [Output, Variable]];
  const joined = graph.colocateWith(gradient.op, () =>
    raw.concatV2(
      pairs.map(([one]) => raw.reshape(one, ints([-1]))),
      int(0),
      { name: 'pack' },
    ),
  );
  const shapes = pairs.map(([, variable]) => shapeOf(variable) ?? []);
  return graph.colocateWith(beside.handle, () => {
    const sizes = shapes.map(sizeOf);
    const parts = raw.splitV(joined, ints(sizes), int(0), { numSplit: pairs.length, name: 'unpack' });
    return parts.map((part, i) => raw.reshape(part, ints(shapes[i] as Shape)));
  });
}

/** The shape, where all of it is known. */
function shapeOf({ shape }: Variable): Shape | undefined {
  return isFullyDefined(shape) ? shape : undefined;
}

/** Made where they are used: a constant of another task would travel as well. */
const int = (value: number) => constant(Tensor.of(value, { dtype: 'int32' }));
const ints = (values: readonly number[]) => constant(Tensor.of(Int32Array.from(values), { dtype: 'int32' }));
