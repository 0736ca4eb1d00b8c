/** Iterators that need no initializer: the ops of the dataset become a function, which TensorFlow calls once. */
import { invalid } from '../../../base/errors/errors.js';
import type { FunctionRef } from '../../../tensorflow/graph/attributes.js';
import { FunctionGraph, toFunction } from '../../../tensorflow/graph/function.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { C } from '../../../tensorflow/native/library/library.js';
import { checked } from '../../../tensorflow/native/status.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { DatasetIterator, type IteratorOptions } from './iterator.js';
import { type Spec, typesOf } from './structure.js';

export function oneShotIterator<T>(
  variant: Output<'variant'>,
  spec: Spec,
  options: Pick<IteratorOptions, 'name' | 'sharedName'>,
): DatasetIterator<T> {
  const handle = raw.oneShotIterator({
    datasetFactory: factoryOf(variant),
    ...typesOf(spec),
    sharedName: options.sharedName ?? '',
    name: options.name ?? 'OneShotIterator',
  });
  return new DatasetIterator<T>(handle, spec);
}

/** Ops that are fed or hold state elsewhere cannot be part of a function without arguments. */
const FORBIDDEN = /^(Placeholder.*|VarHandleOp|.*QueueV2|IteratorV2|.*HashTable.*V2)$/;

/** A function without arguments that creates the dataset. */
function factoryOf(variant: Output<'variant'>): FunctionRef {
  const { graph } = variant;
  if (graph instanceof FunctionGraph)
    throw invalid('A one-shot iterator cannot be created inside a function');
  const ops = ancestors(variant.op);
  const wrong = ops.find(({ type }) => FORBIDDEN.test(type));
  if (wrong) {
    throw invalid(`A one-shot iterator cannot use a dataset that depends on ${wrong}`, {
      hint: 'Use dataset.iterator() and run its initializer.',
    });
  }
  const handle = toFunction(graph, { name: 'dataset_factory', ops, outputs: [variant] });
  try {
    checked((status) => C().TF_GraphCopyFunction(graph.pointer, handle.pointer, null, status));
    return { functionName: C().TF_FunctionName(handle.pointer) };
  } finally {
    handle.dispose();
  }
}

/** The op and all that it needs, inputs before their users. */
function ancestors(op: Operation, seen = new Set<Operation>()): Operation[] {
  if (seen.has(op)) return [];
  seen.add(op);
  const needed = [...op.inputs.map((input) => input.op), ...op.controlInputs];
  return [...needed.flatMap((one) => ancestors(one, seen)), op];
}
