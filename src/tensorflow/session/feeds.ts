/** Values for placeholders, checked before TensorFlow sees them. */
import { invalid, messageOf } from '../../base/errors/errors.js';
import type { Graph } from '../graph/graph.js';
import { Output } from '../graph/operation.js';
import type { DType } from '../tensor/dtype.js';
import { formatShape, isCompatible, type PartialShape } from '../tensor/shape.js';
import { Tensor, type TensorLike } from '../tensor/tensor.js';

/** By output, or by name: `{ 'x:0': 1 }`, `{ x: 1 }`. */
export type Feeds =
  | ReadonlyMap<Output, TensorLike>
  | readonly (readonly [Output, TensorLike])[]
  | { readonly [name: string]: TensorLike };

export interface Feed {
  readonly output: Output;
  readonly tensor: Tensor;
}

export function planFeeds(graph: Graph, feeds: Feeds | undefined): Feed[] {
  if (feeds === undefined) return [];
  const isPairs = feeds instanceof Map || Array.isArray(feeds);
  const entries: Iterable<readonly [Output | string, TensorLike]> = isPairs
    ? (feeds as Iterable<readonly [Output, TensorLike]>)
    : Object.entries(feeds as Record<string, TensorLike>);
  return Array.from(entries, ([key, value]) => feed(graph, key, value));
}

export function feed(graph: Graph, key: Output | string, value: TensorLike): Feed {
  const output = typeof key === 'string' ? namedOutput(graph, key) : key;
  if (!(output instanceof Output))
    throw invalid(`The key of a feed must be an output of the graph or its name; got ${String(key)}`);
  if (output.graph !== graph)
    throw invalid(`The feed for ${output} belongs to a graph other than the session's`);
  return { output, tensor: fedTensor(`The feed for '${output.op.name}'`, output, value) };
}

/** Converts a value to a tensor of the expected dtype and shape; `what` names it in errors. */
export function fedTensor(what: string, expected: Expected, value: TensorLike): Tensor {
  if (value instanceof Tensor) {
    if (value.dtype !== expected.dtype)
      throw invalid(`${what} must be ${expected.dtype}; got ${value.dtype}`);
    return checkFed(what, expected, value);
  }
  let tensor: Tensor;
  try {
    tensor = Tensor.of(value, { dtype: expected.dtype, ...flatShape(expected, value) });
  } catch (error) {
    throw invalid(
      `${what} cannot be converted to a ${expected.dtype} ${formatShape(expected.shape)} tensor: ${messageOf(error)}`,
      {
        cause: error,
      },
    );
  }
  return checkFed(what, expected, tensor);
}

interface Expected {
  readonly dtype: DType;
  readonly shape: PartialShape;
}

/** A flat typed array takes the placeholder's shape when at most one size of it is unknown. */
function flatShape(output: Expected, value: TensorLike): { shape?: number[] } {
  const shape = output.shape;
  if (!ArrayBuffer.isView(value) || shape === null || shape.length === 1) return {};
  const known = shape.reduce<number>((product, dim) => product * (dim ?? 1), 1);
  const words = output.dtype.startsWith('complex') ? 2 : 1;
  const count = (value as NodeJS.TypedArray).length / words;
  const unknown = shape.filter((dim) => dim === null).length;
  if (unknown > 1 || known === 0 || count % known !== 0) return {};
  return { shape: shape.map((dim) => dim ?? count / known) };
}

function checkFed(what: string, output: Expected, tensor: Tensor): Tensor {
  if (!isCompatible(tensor.shape, output.shape)) {
    throw invalid(`${what} must have shape ${formatShape(output.shape)}; got ${formatShape(tensor.shape)}`);
  }
  return tensor;
}

function namedOutput(graph: Graph, name: string): Output {
  try {
    return graph.output(name);
  } catch (error) {
    throw invalid(`Cannot feed '${name}': the graph has no tensor of that name`, {
      cause: error,
    });
  }
}
