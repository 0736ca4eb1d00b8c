/**
 * Static lookup tables: a HashTableV2, filled once by its initializer. The initializer is in the collection
 * TABLE_INITIALIZERS, so `tf.tablesInitializer()` runs it. The resource is shared by node name: all sessions on a graph
 * of the same program use the same table, and initializing it again with equal entries has no effect.
 */
import { invalid } from '../../base/errors/errors.js';
import { currentGraph } from '../graph/graph.js';
import type { Operation, Output } from '../graph/operation.js';
import { SparseTensor } from '../layers/sparse/sparse-tensor.js';
import { asOutput, constantIn, type Operand } from '../ops/build.js';
import * as raw from '../ops/generated/index.js';
import { type DType, isInteger } from '../tensor/dtype.js';
import type { NestedValue } from '../tensor/literal.js';
import { Tensor } from '../tensor/tensor.js';
import { GraphKeys } from '../variables/collections.js';

export type Keys = Operand | SparseTensor;
/** What a lookup returns: sparse for sparse keys. */
export type LookupResult<K, V extends DType> = K extends SparseTensor ? SparseTensor<V> : Output<V>;

/** Maps tensors of keys to tensors of values. */
export interface LookupTable<V extends DType = DType> {
  readonly keyDtype: DType;
  readonly valueDtype: V;
  /** The op that fills the table. */
  readonly initializer: Operation;
  lookup<const K extends Keys>(keys: K): LookupResult<K, V>;
  size(): Output<'int64'>;
}

export interface TableOptions<V extends DType> {
  readonly keyDtype: DType;
  readonly valueDtype: V;
  /** The value for keys that are not in the table. */
  readonly defaultValue: NestedValue;
  /** Adds the op that fills the table. */
  readonly initialize: (handle: Output<'resource'>) => Operation;
}

export class StaticHashTable<V extends DType = DType> implements LookupTable<V> {
  readonly keyDtype: DType;
  readonly valueDtype: V;
  readonly handle: Output<'resource'>;
  readonly initializer: Operation;
  readonly defaultValue: Output<V>;

  constructor({ keyDtype, valueDtype, defaultValue, initialize }: TableOptions<V>) {
    const graph = currentGraph();
    this.keyDtype = keyDtype;
    this.valueDtype = valueDtype;
    // A table is created and filled once, independent of the current control dependencies.
    const { handle, value, initializer } = graph.controlDependencies(null, () => {
      const handle = raw.hashTableV2({ keyDtype, valueDtype, useNodeNameSharing: true, name: 'hash_table' });
      const value = constantIn(graph, Tensor.of(defaultValue, { dtype: valueDtype }), valueDtype, {
        name: 'default_value',
      });
      return { handle, value, initializer: initialize(handle) };
    });
    this.handle = handle;
    this.defaultValue = value as Output<V>;
    this.initializer = initializer;
    graph.addToCollection(GraphKeys.tableInitializers, initializer);
  }

  lookup<const K extends Keys>(keys: K): LookupResult<K, V> {
    return onValues(keys, this.keyDtype, (values) =>
      // The op's shape function asks the handle for the shape of a value, which only mutable tables know.
      raw.lookupTableFindV2(this.handle, values, this.defaultValue).setShape(values.shape),
    ) as LookupResult<K, V>;
  }

  size(): Output<'int64'> {
    return raw.lookupTableSizeV2(this.handle);
  }
}

/** An id table that maps unknown keys by hash to ids after its own. */
export class IdTableWithHashBuckets implements LookupTable<'int64'> {
  readonly keyDtype: DType;
  readonly valueDtype = 'int64';
  readonly initializer: Operation;
  readonly #table: StaticHashTable<'int64'>;
  readonly #buckets: number;

  constructor(table: StaticHashTable<'int64'>, buckets: number) {
    if (!Number.isSafeInteger(buckets) || buckets < 1)
      throw invalid(`numOovBuckets must be a positive integer; got ${buckets}`);
    this.#table = table;
    this.#buckets = buckets;
    this.keyDtype = table.keyDtype;
    this.initializer = table.initializer;
  }

  lookup<const K extends Keys>(keys: K): LookupResult<K, 'int64'> {
    return onValues(keys, this.keyDtype, (values) => {
      const ids = this.#table.lookup(values) as Output<'int64'>;
      const text = values.dtype === 'string' ? (values as Output<'string'>) : raw.asString(values);
      const hashed = raw.stringToHashBucketFast(text, { numBuckets: this.#buckets });
      const isKnown = raw.notEqual(ids, this.#table.defaultValue);
      return raw.selectV2(isKnown, ids, raw.addV2(hashed, this.#table.size()));
    }) as LookupResult<K, 'int64'>;
  }

  size(): Output<'int64'> {
    return raw.addV2(this.#table.size(), Tensor.of(this.#buckets, { dtype: 'int64' })) as Output<'int64'>;
  }
}

/** Applies a lookup to dense keys, or to the values of sparse keys. Integers of any width match int64 keys. */
function onValues(keys: Keys, dtype: DType, find: (values: Output) => Output): Output | SparseTensor {
  if (keys instanceof SparseTensor) return keys.withValues(find(ofKeyType(keys.values, dtype)));
  return find(ofKeyType(asKeys(keys, dtype), dtype));
}

function asKeys(keys: Operand, dtype: DType): Output {
  const isGraph = typeof keys === 'object' && keys !== null && 'toOutput' in keys;
  return isGraph || keys instanceof Tensor ? asOutput(keys) : asOutput(keys, dtype);
}

function ofKeyType(keys: Output, dtype: DType): Output {
  if (keys.dtype === dtype) return keys;
  if (dtype === 'int64' && isInteger(keys.dtype)) return raw.cast(keys, { dstT: 'int64' });
  throw invalid(`The table has keys of dtype ${dtype}; got ${keys}`);
}
