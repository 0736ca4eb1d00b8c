/** Datasets from arrays, ranges and zipped datasets. */

import { invalid } from '../../../base/errors/errors.js';
import { currentGraph } from '../../../tensorflow/graph/graph.js';
import { Output } from '../../../tensorflow/graph/operation.js';
import { activeScope } from '../../../tensorflow/graph/scope.js';
import type { SparseTensor } from '../../../tensorflow/layers/sparse/sparse-tensor.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import type { TensorLike } from '../../../tensorflow/tensor/tensor.js';
import { Dataset, int64 } from './dataset.js';
import { onWorker } from './placement.js';
import { type DatasetElement, flattenElement, flattenSlices, type Spec, typesOf } from './structure.js';

/**
 * A structure of values. An array of numbers or strings is one tensor; an array of tensors, typed arrays or
 * outputs is a list of them.
 */
export type SourceValues =
  | TensorLike
  | Output
  | SparseTensor
  | readonly SourceValues[]
  | { readonly [key: string]: SourceValues };

/** Builds ops in the current scope, on the worker. */
export const building = <T>(body: () => T): T =>
  activeScope() ? onWorker(body) : currentGraph().asDefault(() => onWorker(body));

/** A dataset of one element, the given values. They become constants of the graph. */
export function fromTensors<const V extends SourceValues>(values: V): Dataset<DatasetElement<V>> {
  return building(() => {
    const { spec, components } = flattenElement(values);
    const { outputShapes } = typesOf(spec);
    return new Dataset<DatasetElement<V>>(raw.tensorDataset(components, { outputShapes }), spec);
  });
}

/**
 * A dataset with one element per row of the values. They become constants of the graph, which is limited to 2 GB and
 * sent to every task: use it for small data only.
 */
export function fromTensorSlices<const V extends SourceValues>(values: V): Dataset<DatasetElement<V>> {
  return building(() => {
    const { spec, components } = flattenSlices(values);
    const { outputShapes } = typesOf(spec);
    return new Dataset<DatasetElement<V>>(raw.tensorSliceDataset(components, { outputShapes }), spec);
  });
}

/** Integers (int64) in [start, stop); default start: 0. */
export function range(stop: number | bigint): Dataset<Output<'int64'>>;
export function range(
  start: number | bigint,
  stop: number | bigint,
  step?: number | bigint,
): Dataset<Output<'int64'>>;
export function range(
  first: number | bigint,
  second?: number | bigint,
  step: number | bigint = 1,
): Dataset<Output<'int64'>> {
  const [start, stop] = second === undefined ? [0, first] : [first, second];
  const spec: Spec = { kind: 'tensor', dtype: 'int64', shape: [] };
  return building(
    () => new Dataset(raw.rangeDataset(int64(start), int64(stop), int64(step), typesOf(spec)), spec),
  );
}

export type Zipped<S> = { -readonly [K in keyof S]: S[K] extends Dataset<infer T> ? T : Zipped<S[K]> };

/** Combines the elements of several datasets, in the structure in which the datasets are given. */
export function zip<const S extends object>(datasets: S): Dataset<Zipped<S>> {
  const found: Dataset[] = [];
  const visit = (part: unknown): Spec => {
    if (part instanceof Dataset) {
      found.push(part as Dataset);
      return part.spec;
    }
    if (Array.isArray(part)) return { kind: 'list', items: part.map(visit) };
    if (typeof part !== 'object' || part === null || part instanceof Output)
      throw invalid('zip takes datasets, in any nesting of arrays and objects');
    return { kind: 'record', entries: Object.entries(part).map(([key, item]) => [key, visit(item)]) };
  };
  const spec = visit(datasets);
  if (found.length === 0) throw invalid('zip needs at least one dataset');
  const make = () =>
    new Dataset<Zipped<S>>(
      raw.zipDataset(
        found.map(({ variant }) => variant),
        typesOf(spec),
      ),
      spec,
    );
  if (activeScope()) return onWorker(make);
  return (found[0] as Dataset).variant.graph.asDefault(() => onWorker(make));
}
