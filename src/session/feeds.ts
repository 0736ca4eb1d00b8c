/** Values for placeholders, checked before TensorFlow sees them. */
import { invalid, messageOf } from '../errors/errors.js';
import type { Graph } from '../graph/graph.js';
import { Output } from '../graph/operation.js';
import { formatShape, isCompatible } from '../tensor/shape.js';
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
    throw invalid(`A feed must be for an output of the graph, not for ${String(key)}`);
  if (output.graph !== graph) throw invalid(`The feed for ${output} is not of this session's graph`);
  const what = `The feed for '${output.op.name}'`;
  if (value instanceof Tensor) {
    if (value.dtype !== output.dtype) throw invalid(`${what} must be ${output.dtype}, it is ${value.dtype}`);
    return { output, tensor: checkFed(what, output, value) };
  }
  let tensor: Tensor;
  try {
    tensor = Tensor.of(value, { dtype: output.dtype, ...flatShape(output, value) });
  } catch (error) {
    throw invalid(
      `${what} cannot be made a ${output.dtype} ${formatShape(output.shape)} tensor: ${messageOf(error)}`,
      {
        cause: error,
      },
    );
  }
  return { output, tensor: checkFed(what, output, tensor) };
}

/** A flat typed array takes the placeholder's shape when at most one size of it is unknown. */
function flatShape(output: Output, value: TensorLike): { shape?: number[] } {
  const shape = output.shape;
  if (!ArrayBuffer.isView(value) || shape === null || shape.length === 1) return {};
  const known = shape.reduce<number>((product, dim) => product * (dim ?? 1), 1);
  const words = output.dtype.startsWith('complex') ? 2 : 1;
  const count = (value as NodeJS.TypedArray).length / words;
  const unknown = shape.filter((dim) => dim === null).length;
  if (unknown > 1 || known === 0 || count % known !== 0) return {};
  return { shape: shape.map((dim) => dim ?? count / known) };
}

function checkFed(what: string, output: Output, tensor: Tensor): Tensor {
  if (!isCompatible(tensor.shape, output.shape)) {
    throw invalid(
      `${what} must have shape ${formatShape(output.shape)}, it has ${formatShape(tensor.shape)}`,
    );
  }
  return tensor;
}

function namedOutput(graph: Graph, name: string): Output {
  try {
    return graph.output(name);
  } catch (error) {
    throw invalid(`There is a feed for '${name}', but the graph has no tensor of that name`, {
      cause: error,
    });
  }
}
