/**
 * An iterator over a dataset: a resource on the worker that holds the current position. A run that needs `getNext()`
 * advances it; at the end such a run fails with OUT_OF_RANGE.
 *
 * The server owns the resource by its shared name: a later session of the same server continues at the position of the
 * earlier one.
 */
import { invalid } from '../../../base/errors/errors.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { inScope, scopeOf } from '../../../tensorflow/graph/scope.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { GraphKeys } from '../../../tensorflow/variables/collections.js';
import { tuned } from './autotune.js';
import { describe, type Spec, typesOf, unflattenElement } from './structure.js';

export interface IteratorOptions {
  /** The name of the iterator's op; default: `Iterator`. */
  readonly name?: string;
  /** The name of the resource; default: the name of the op. */
  readonly sharedName?: string;
  /**
   * Whether `tf.tablesInitializer()` initializes the iterator; default: true, false for `makeInitializableIterator`.
   */
  readonly addToInitializers?: boolean;
}

/** The collection of a graph's initializable iterators. */
export const ITERATORS = 'iterators';

export class DatasetIterator<T = unknown> {
  readonly handle: Output<'resource'>;
  /** @internal */
  readonly spec: Spec;
  readonly #initializer: Operation | undefined;

  /** @internal */
  constructor(handle: Output<'resource'>, spec: Spec, initializer?: Operation) {
    this.handle = handle;
    this.spec = spec;
    this.#initializer = initializer;
  }

  /** The op that moves the iterator to the beginning. */
  get initializer(): Operation {
    if (!this.#initializer) {
      throw invalid(`'${this.handle.op.name}' is a one-shot iterator, which needs no initializer`);
    }
    return this.#initializer;
  }

  /** Outputs of the next element. Each call creates an op that consumes one: call it once per step. */
  getNext(options: { readonly name?: string | null } = {}): T {
    const { graph, op } = this.handle;
    const scope = { ...scopeOf(graph), devices: [op.device], colocation: undefined };
    return inScope(scope, () => {
      const outputs = raw.iteratorGetNext(this.handle, {
        ...typesOf(this.spec),
        name: options.name ?? 'IteratorGetNext',
      });
      return unflattenElement(this.spec, outputs) as T;
    });
  }

  toString(): string {
    return `Iterator '${this.handle.op.name}' over ${describe(this.spec)}`;
  }
}

export function initializableIterator<T>(
  variant: Output<'variant'>,
  spec: Spec,
  options: IteratorOptions,
): DatasetIterator<T> {
  const { name = 'Iterator', addToInitializers = true } = options;
  const graph = variant.graph;
  const sharedName = options.sharedName ?? '';
  const handle = raw.iteratorV2({ sharedName, container: '', ...typesOf(spec), name });
  const initializer = raw.makeIterator(tuned(variant, spec), handle, {
    name: `${handle.op.name}/initializer/`,
  });
  if (addToInitializers) graph.addToCollection(GraphKeys.tableInitializers, initializer);
  graph.addToCollection(ITERATORS, handle);
  return new DatasetIterator<T>(handle, spec, initializer);
}
