/**
 * Packs small gradients for the same ps into one tensor. Each tensor sent between tasks is a separate call, and for a
 * small tensor the call costs far more than its bytes. Values do not change.
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

/** Larger tensors are sent separately: packing copies them. */
const SMALL_BYTES = 64 << 10;

/** The pairs in the same order; small gradients with the same route are packed, then split on the target device. */
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

/** Source, target and dtype of a small dense gradient; undefined for all others. */
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

/** The shape, if fully defined. */
function shapeOf({ shape }: Variable): Shape | undefined {
  return isFullyDefined(shape) ? shape : undefined;
}

/** Created on the device that uses them: a constant on another task would be sent too. */
const int = (value: number) => constant(Tensor.of(value, { dtype: 'int32' }));
const ints = (values: readonly number[]) => constant(Tensor.of(Int32Array.from(values), { dtype: 'int32' }));
