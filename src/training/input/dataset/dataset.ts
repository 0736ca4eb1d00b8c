/**
 * A dataset in the graph: a chain of TensorFlow's dataset ops. Nothing runs when it is built; TensorFlow's threads
 * produce elements when an iterator requests them. Elements never pass through JavaScript.
 *
 * Functions given to `map` and similar methods are traced once into graph functions. They take one element in its
 * structure (`({ x, y }) => …`) and may capture outputs of the surrounding graph.
 */

import { invalid } from '../../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../../base/errors/null-options.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { activeScope } from '../../../tensorflow/graph/scope.js';
import type { Operand } from '../../../tensorflow/ops/build.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { opSeeds } from '../../../tensorflow/ops/random.js';
import type { PartialShape } from '../../../tensorflow/tensor/shape.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { noteAutomatic } from './autotune.js';
import { traceDatasetFunction, traceMap, tracePredicate } from './functions.js';
import { type DatasetIterator, type IteratorOptions, initializableIterator } from './iterator.js';
import { oneShotIterator } from './one-shot.js';
import { type PaddedBatchOptions, padding } from './padding.js';
import { type Features, type ParsedFeatures, parsedSpec, planFeatures } from './parse-example.js';
import { onWorker } from './placement.js';
import type { Change, Parallel, ParallelOptions, Recipe } from './recipe.js';
import {
  batched,
  common,
  type DatasetElement,
  describe,
  leavesOf,
  mapLeaves,
  type Spec,
  typesOf,
  unbatched,
} from './structure.js';

export interface InterleaveOptions extends ParallelOptions {
  /** How many inner datasets are interleaved; default: 'auto'. */
  readonly cycle?: number | 'auto';
  /** How many consecutive elements are taken from one inner dataset; default: 1. */
  readonly block?: number;
}

export interface ShuffleOptions {
  /** The seed of the order; default: the graph's seed, else random. */
  readonly seed?: number;
  /** Whether each iteration has another order; default: true. */
  readonly reshuffleEachIteration?: boolean;
}

const AUTO = -1;

export const int64 = (value: number | bigint | Output): Operand<'int64'> =>
  typeof value === 'object' ? value : Tensor.of(BigInt(value), { dtype: 'int64' });

function calls(parallel: Parallel): Operand<'int64'> {
  if (parallel !== 'auto') return int64(positive(parallel, 'parallel'));
  noteAutomatic();
  return int64(AUTO);
}

const order = (deterministic: boolean | undefined): string =>
  deterministic === undefined ? 'default' : String(deterministic);

function positive(value: number, what: string): number {
  if (!Number.isSafeInteger(value) || value < 1) {
    throw invalid(`${what} must be an integer of at least 1; got ${value}`);
  }
  return value;
}

/** The number, if it is known before the graph runs. */
const known = (value: number | bigint | Output): number | undefined =>
  typeof value === 'object' ? undefined : Number(value);

const other = (name: string): Change<Dataset> => ({ kind: 'other', name });

export class Dataset<T = unknown> {
  /** The variant tensor of TensorFlow's dataset. */
  readonly variant: Output<'variant'>;
  /** @internal */
  readonly spec: Spec;
  /** How the dataset is made from files, if it is. @internal */
  readonly recipe: Recipe<Dataset> | undefined;

  /** @internal */
  constructor(variant: Output<'variant'>, spec: Spec, recipe?: Recipe<Dataset>) {
    this.variant = variant;
    this.spec = spec;
    this.recipe = recipe;
  }

  /** The structure, types and shapes of the elements. */
  toString(): string {
    return `Dataset of ${describe(this.spec)}`;
  }

  /** Maps each element through `fn`. */
  map<const U>(fn: (element: T) => U, given: OrNull<ParallelOptions> = {}): Dataset<DatasetElement<U>> {
    const options = withoutNull<ParallelOptions>(given);
    return this.#within(() => {
      const { f, captures, spec } = traceMap(this.spec, fn, 'dataset_map');
      const attrs = { f, ...typesOf(spec), preserveCardinality: true };
      const variant =
        options.parallel === undefined
          ? raw.mapDataset(this.variant, captures, attrs)
          : raw.parallelMapDatasetV2(this.variant, captures, calls(options.parallel), {
              ...attrs,
              deterministic: order(options.deterministic),
            });
      return this.#made<DatasetElement<U>>(variant, spec, { kind: 'map', fn, options });
    });
  }

  /** Only the elements for which `predicate` is true. */
  filter(predicate: (element: T) => Operand<'bool'>): Dataset<T> {
    return this.#within(() => {
      const { f, captures } = tracePredicate(this.spec, predicate, 'dataset_filter');
      const variant = raw.filterDataset(this.variant, captures, { predicate: f, ...this.#types });
      return this.#same(variant, other('filter'));
    });
  }

  /** The elements up to the first for which `predicate` is false. */
  takeWhile(predicate: (element: T) => Operand<'bool'>): Dataset<T> {
    return this.#within(() => {
      const { f, captures } = tracePredicate(this.spec, predicate, 'dataset_take_while');
      const variant = raw.takeWhileDataset(this.variant, captures, { predicate: f, ...this.#types });
      return this.#same(variant, other('takeWhile'));
    });
  }

  /** Maps each element to a dataset and concatenates these. */
  flatMap<U>(fn: (element: T) => Dataset<U>): Dataset<U> {
    return this.#within(() => {
      const { f, captures, spec } = traceDatasetFunction(this.spec, fn, 'dataset_flat_map');
      const variant = raw.flatMapDataset(this.variant, captures, { f, ...typesOf(spec) });
      return this.#made<U>(variant, spec, other('flatMap'));
    });
  }

  /** Maps each element to a dataset and interleaves these; with `parallel`, reads ahead. */
  interleave<U>(fn: (element: T) => Dataset<U>, given: OrNull<InterleaveOptions> = {}): Dataset<U> {
    const options = withoutNull<InterleaveOptions>(given);
    return this.#within(() => {
      const { f, captures, spec } = traceDatasetFunction(this.spec, fn, 'dataset_interleave');
      const { cycle = 'auto', block = 1, parallel } = options;
      const attrs = { f, ...typesOf(spec) };
      const blockLength = int64(positive(block, 'block'));
      if (parallel === undefined) {
        const cycleLength = int64(cycle === 'auto' ? 1 : positive(cycle, 'cycle'));
        return this.#made<U>(
          raw.interleaveDataset(this.variant, captures, cycleLength, blockLength, attrs),
          spec,
          other('interleave'),
        );
      }
      const variant = raw.parallelInterleaveDatasetV4(
        this.variant,
        captures,
        int64(cycle === 'auto' ? AUTO : positive(cycle, 'cycle')),
        blockLength,
        int64(AUTO),
        int64(AUTO),
        calls(parallel),
        { ...attrs, deterministic: order(options.deterministic) },
      );
      return this.#made<U>(variant, spec, other('interleave'));
    });
  }

  /** Shuffles: draws elements at random from a buffer of this size. */
  shuffle(buffer: number | bigint | Output<'int64'>, given: OrNull<ShuffleOptions> = {}): Dataset<T> {
    const options = withoutNull<ShuffleOptions>(given);
    return this.#within(() => {
      const { seed, seed2 } = opSeeds(options.seed);
      const { reshuffleEachIteration = true } = options;
      return this.#same(
        raw.shuffleDataset(this.variant, int64(buffer), int64(seed), int64(seed2), {
          reshuffleEachIteration,
          ...this.#types,
        }),
        { kind: 'shuffle', buffer: known(buffer), seed: options.seed, isFixed: !reshuffleEachIteration },
      );
    });
  }

  /** Repeats the dataset; default: forever. */
  repeat(given: number | bigint | Output<'int64'> | null = null): Dataset<T> {
    const count = given ?? -1;
    const times = known(count);
    return this.#unary((attrs) => raw.repeatDataset(this.variant, int64(count), attrs), {
      kind: 'repeat',
      times: times !== undefined && times < 0 ? null : times,
    });
  }

  take(count: number | bigint | Output<'int64'>): Dataset<T> {
    return this.#unary((attrs) => raw.takeDataset(this.variant, int64(count), attrs), other('take'));
  }

  skip(count: number | bigint | Output<'int64'>): Dataset<T> {
    return this.#unary((attrs) => raw.skipDataset(this.variant, int64(count), attrs), other('skip'));
  }

  /** Every `shards`th element, from element `index` on. */
  shard(shards: number, index: number): Dataset<T> {
    positive(shards, 'The number of shards');
    if (!Number.isSafeInteger(index) || index < 0 || index >= shards) {
      throw invalid(`The shard index must be in [0, ${shards}): there is no shard ${index}`);
    }
    return this.#unary(
      (attrs) => raw.shardDataset(this.variant, int64(shards), int64(index), attrs),
      other('shard'),
    );
  }

  /** Produces up to this many elements ahead of their use. */
  prefetch(buffer: Parallel = 'auto'): Dataset<T> {
    return this.#unary((attrs) => raw.prefetchDataset(this.variant, calls(buffer), attrs), {
      kind: 'prefetch',
    });
  }

  /** Caches the elements of the first iteration in memory, or in a file, for later iterations. */
  cache(filename = ''): Dataset<T> {
    return this.#unary((attrs) => raw.cacheDataset(this.variant, filename, attrs), other('cache'));
  }

  /** Drops duplicates. */
  unique(): Dataset<T> {
    return this.#unary((attrs) => raw.uniqueDataset(this.variant, attrs), other('unique'));
  }

  /** Drops elements whose computation fails. */
  ignoreErrors(): Dataset<T> {
    return this.#unary((attrs) => raw.ignoreErrorsDataset(this.variant, attrs), other('ignoreErrors'));
  }

  concatenate(next: Dataset<T>): Dataset<T> {
    return this.#within(() => {
      const spec = common(this.spec, next.spec, 'Concatenated datasets');
      const variant = raw.concatenateDataset(this.variant, next.variant, typesOf(spec));
      return this.#made<T>(variant, spec, other('concatenate'));
    });
  }

  /**
   * Stacks this many consecutive elements along a new first dimension. The last batch may be smaller; `dropRemainder`
   * drops it. Default: false.
   */
  batch(
    size: number,
    given: OrNull<ParallelOptions & { readonly dropRemainder?: boolean | undefined }> = {},
  ): Dataset<T> {
    const options = withoutNull<ParallelOptions & { readonly dropRemainder?: boolean | undefined }>(given);
    const { dropRemainder = false, parallel, deterministic } = options;
    const spec = batched(this.spec, dropRemainder ? positive(size, 'The batch size') : null);
    return this.#within(() => {
      const count = int64(positive(size, 'The batch size'));
      const variant =
        parallel === undefined
          ? raw.batchDatasetV2(this.variant, count, dropRemainder, { parallelCopy: false, ...typesOf(spec) })
          : raw.parallelBatchDataset(this.variant, count, calls(parallel), dropRemainder, {
              deterministic: order(deterministic),
              ...typesOf(spec),
            });
      return this.#made<T>(variant, spec, {
        kind: 'batch',
        size,
        dropRemainder,
        again: (dataset) => dataset.batch(size, { ...options, deterministic: true }),
      });
    });
  }

  /** Batches elements of different sizes, padded to the largest or to the given shapes. */
  paddedBatch(size: number, given: OrNull<PaddedBatchOptions> = {}): Dataset<T> {
    const options = withoutNull<PaddedBatchOptions>(given);
    return this.#within(() => {
      const { shapes, paddedShapes, paddingValues } = padding(this.spec, options);
      const dropRemainder = options.dropRemainder ?? false;
      const batch = dropRemainder ? size : null;
      let next = 0;
      const spec = mapLeaves(this.spec, (leaf) => ({
        ...leaf,
        shape: [batch, ...(shapes[next++] as NonNullable<PartialShape>)],
      }));
      const { outputShapes } = typesOf(spec);
      const count = int64(positive(size, 'The batch size'));
      return this.#made<T>(
        raw.paddedBatchDatasetV2(this.variant, count, paddedShapes, paddingValues, dropRemainder, {
          outputShapes,
        }),
        spec,
        { kind: 'batch', size, dropRemainder, again: (dataset) => dataset.paddedBatch(size, options) },
      );
    });
  }

  /** Splits each element along its first dimension into elements. */
  unbatch(): Dataset<T> {
    return this.#within(() => {
      const spec = unbatched(this.spec);
      return this.#made<T>(raw.unbatchDataset(this.variant, typesOf(spec)), spec, other('unbatch'));
    });
  }

  /** Parses batches of serialized tf.train.Example messages. */
  parseExample<const F extends Features>(
    features: F,
    given: OrNull<ParallelOptions> = {},
  ): Dataset<ParsedFeatures<F>> {
    const options = withoutNull<ParallelOptions>(given);
    const [leaf, ...more] = leavesOf(this.spec);
    if (leaf?.dtype !== 'string' || more.length > 0 || (leaf.shape !== null && leaf.shape.length !== 1)) {
      throw invalid(`parseExample takes batches of serialized examples, not ${describe(this.spec)}`, {
        hint: 'Batch first: tf.data.tfRecord(files).batch(100).parseExample(features).',
      });
    }
    return this.#within(() => {
      const plan = planFeatures(features);
      const spec = parsedSpec(plan, leaf.shape?.[0] ?? null);
      const variant = raw.parseExampleDatasetV2(
        this.variant,
        calls(options.parallel ?? 1),
        plan.dense.map(({ defaultValue }) => defaultValue),
        {
          sparseKeys: plan.sparse.map(({ key }) => key),
          denseKeys: plan.dense.map(({ key }) => key),
          sparseTypes: plan.sparse.map(({ dtype }) => dtype),
          denseShapes: plan.dense.map(({ shape }) => shape),
          deterministic: order(options.deterministic),
          raggedKeys: [],
          raggedValueTypes: [],
          raggedSplitTypes: [],
          ...typesOf(spec),
        },
      );
      return this.#made<ParsedFeatures<F>>(variant, spec, { kind: 'parse', features, options });
    });
  }

  /** Applies `change` to this dataset, for steps that pipelines share. */
  apply<U>(change: (dataset: this) => U): U {
    return change(this);
  }

  /**
   * An iterator that `tf.tablesInitializer()`, and so every managed session, initializes. Running its `initializer`
   * again restarts it.
   */
  iterator(given: OrNull<IteratorOptions> = {}): DatasetIterator<T> {
    const options = withoutNull<IteratorOptions>(given);
    return this.#within(() =>
      initializableIterator<T>(this.variant, this.spec, { addToInitializers: true, ...options }),
    );
  }

  /** An iterator that is initialized by running its `initializer`. */
  makeInitializableIterator(given: OrNull<IteratorOptions> = {}): DatasetIterator<T> {
    const options = withoutNull<IteratorOptions>(given);
    return this.iterator({ addToInitializers: false, ...options });
  }

  /** An iterator that needs no initializer and cannot restart. The dataset may use only constants. */
  makeOneShotIterator(given: OrNull<Pick<IteratorOptions, 'sharedName' | 'name'>> = {}): DatasetIterator<T> {
    const options = withoutNull<Pick<IteratorOptions, 'sharedName' | 'name'>>(given);
    return this.#within(() => oneShotIterator<T>(this.variant, this.spec, options));
  }

  get #types() {
    return typesOf(this.spec);
  }

  #made<U>(variant: Output<'variant'>, spec: Spec, change: Change<Dataset>): Dataset<U> {
    const { recipe } = this;
    return new Dataset<U>(variant, spec, recipe && { ...recipe, changes: [...recipe.changes, change] });
  }

  #same(variant: Output<'variant'>, change: Change<Dataset>): Dataset<T> {
    return this.#made<T>(variant, this.spec, change);
  }

  #unary(
    make: (attrs: ReturnType<typeof typesOf>) => Output<'variant'>,
    change: Change<Dataset>,
  ): Dataset<T> {
    return this.#within(() => this.#same(make(this.#types), change));
  }

  /** Runs `body` in the dataset's graph, or in that of the function being traced. */
  #within<R>(body: () => R): R {
    const here = () => onWorker(body);
    return activeScope() ? here() : this.variant.graph.asDefault(here);
  }
}
