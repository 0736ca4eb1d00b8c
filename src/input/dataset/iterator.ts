/**
 * An iterator over a dataset: a resource on the worker, which holds the place reached. A run that needs
 * `getNext()` moves it on; at the end such a run fails with OUT_OF_RANGE.
 *
 * The resource belongs to the server under its shared name: a further session of the same server finds the
 * iterator where the session before left it.
 */
import { invalid } from '../../errors/errors.js';
import type { Operation, Output } from '../../graph/operation.js';
import { inScope, scopeOf } from '../../graph/scope.js';
import * as raw from '../../ops/generated/index.js';
import { GraphKeys } from '../../variables/collections.js';
import { describe, type Spec, typesOf, unflatten } from './structure.js';

export interface IteratorOptions {
  readonly name?: string | undefined;
  /** The name of the resource; that of the op when left out. */
  readonly sharedName?: string | undefined;
  /** Has `tf.tablesInitializer()` start the iterator. */
  readonly addToInitializers?: boolean | undefined;
}

/** The collection of the iterators of a graph that begin anew by their initializers. */
export const ITERATORS = 'iterators';

export class DatasetIterator<T = unknown> {
  readonly handle: Output<'resource'>;
  readonly spec: Spec;
  readonly #initializer: Operation | undefined;

  constructor(handle: Output<'resource'>, spec: Spec, initializer?: Operation) {
    this.handle = handle;
    this.spec = spec;
    this.#initializer = initializer;
  }

  /** The op that puts the iterator at the beginning. */
  get initializer(): Operation {
    if (!this.#initializer) {
      throw invalid(`'${this.handle.op.name}' is a one-shot iterator, which needs no initializer`);
    }
    return this.#initializer;
  }

  /** Outputs for the next element. Each call makes an op that takes one: call it once for a step. */
  getNext(options: { readonly name?: string } = {}): T {
    const { graph, op } = this.handle;
    const scope = { ...scopeOf(graph), devices: [op.device], colocation: undefined };
    return inScope(scope, () => {
      const outputs = raw.iteratorGetNext(this.handle, {
        ...typesOf(this.spec),
        name: options.name ?? 'IteratorGetNext',
      });
      return unflatten(this.spec, outputs) as T;
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
  const initializer = raw.makeIterator(variant, handle, { name: `${handle.op.name}/initializer/` });
  if (addToInitializers) graph.addToCollection(GraphKeys.tableInitializers, initializer);
  graph.addToCollection(ITERATORS, handle);
  return new DatasetIterator<T>(handle, spec, initializer);
}
