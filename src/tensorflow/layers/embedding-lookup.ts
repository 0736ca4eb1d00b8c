/**
 * Embedding lookup: rows of a table by id. Each partition gathers only the needed rows, on its own device; repeated
 * ids are looked up once, so each row crosses the network once. The gradient is IndexedSlices of those rows: its
 * cost does not depend on the size of the table.
 */

import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import type { Output } from '../graph/operation.js';
import { concat, gather, reshape, slice, unique } from '../ops/arrays.js';
import type { Operand } from '../ops/build.js';
import * as raw from '../ops/generated/index.js';
import {
  add,
  cast,
  div,
  floorDiv,
  greater,
  maximum,
  minimum,
  mod,
  mul,
  sqrt,
  sub,
  sum,
  where,
} from '../ops/math.js';
import { Tensor } from '../tensor/tensor.js';
import { PartitionedVariable } from '../variables/partitioned.js';
import { Variable } from '../variables/variable.js';
import { graphFor } from './graph-for.js';
import { integerOutput } from './integers.js';

/** A table: a variable, a partitioned variable, or a list of its partitions. */
export type EmbeddingTable = Variable | PartitionedVariable | Output | readonly (Variable | Output)[];

/** `mod`: id i is in partition i mod n. `div`: each partition holds a range of consecutive ids. */
export type PartitionStrategy = 'mod' | 'div';

export interface EmbeddingLookupOptions {
  /**
   * How ids map to partitions. Default: 'div' for a partitioned variable, which is split into ranges of rows; 'mod' for
   * a list, as in TensorFlow.
   */
  readonly partitionStrategy?: PartitionStrategy;
  /** Rows with a larger Euclidean norm are scaled down to it. Default: no limit. */
  readonly maxNorm?: number;
  /** Looks up each distinct id once. Default: true; set to false only if the ids are distinct. */
  readonly unique?: boolean;
  /** The name scope of the ops; default: the name of the function, such as `embedding_lookup`. */
  readonly name?: string;
}

const STRATEGIES: readonly PartitionStrategy[] = ['mod', 'div'];

/** [ids…] → [ids…, row…] */
export function embeddingLookup(
  params: EmbeddingTable,
  ids: Operand,
  given: OrNull<EmbeddingLookupOptions> = {},
): Output {
  const options = withoutNull<EmbeddingLookupOptions>(given);
  const parts = partsOf(params);
  const strategy = strategyFor(params, options.partitionStrategy);
  const wanted = integerOutput('Ids', ids);
  return graphFor(wanted).nameScope(options.name ?? 'embedding_lookup', () => {
    const flat = wanted.rank === 1 ? wanted : reshape(wanted, [-1]);
    const distinct = (options.unique ?? true) ? unique(flat) : undefined;
    const rows = lookUp(parts, distinct?.y ?? flat, strategy, distinct !== undefined);
    const clipped = options.maxNorm === undefined ? rows : clipRows(rows, options.maxNorm);
    const each = distinct ? gather(clipped, distinct.idx) : clipped;
    return wanted.rank === 1 ? each : restoreShape(each, wanted, rowShapeOf(parts));
  });
}

/** The rows of a vector of distinct ids; their gradient needs no summing. */
export function lookUpDistinct(
  params: EmbeddingTable,
  ids: Output,
  options: Omit<EmbeddingLookupOptions, 'unique'>,
): Output {
  const parts = partsOf(params);
  const strategy = strategyFor(params, options.partitionStrategy);
  return graphFor(ids).nameScope(options.name ?? 'embedding_lookup', () => {
    const rows = lookUp(parts, ids, strategy, true);
    return options.maxNorm === undefined ? rows : clipRows(rows, options.maxNorm);
  });
}

export function partsOf(params: EmbeddingTable): readonly (Variable | Output)[] {
  if (params instanceof PartitionedVariable) {
    if (params.axis !== 0) {
      throw invalid(
        `${params} is partitioned along axis ${params.axis}; an embedding table must be partitioned along axis 0`,
      );
    }
    return params.parts;
  }
  const parts = Array.isArray(params) ? (params as readonly (Variable | Output)[]) : [params as Variable];
  if (parts.length === 0) throw invalid('An embedding lookup needs a table; the list of partitions is empty');
  return parts;
}

function strategyFor(params: EmbeddingTable, asked: PartitionStrategy | undefined): PartitionStrategy {
  const strategy = asked ?? (params instanceof PartitionedVariable ? 'div' : 'mod');
  if (!STRATEGIES.includes(strategy)) {
    throw invalid(`Unknown partition strategy '${strategy}'; use ${STRATEGIES.join(' or ')}`);
  }
  return strategy;
}

/** The row of each id, in order. */
function lookUp(
  parts: readonly (Variable | Output)[],
  ids: Output,
  strategy: PartitionStrategy,
  isDistinct: boolean,
): Output {
  if (parts.length === 1) return rowsOf(parts[0] as Variable, ids, isDistinct);
  const { part, row } = strategy === 'mod' ? byModulo(ids, parts.length) : byRuns(ids, parts);
  const numPartitions = parts.length;
  const places = raw.range(Tensor.of(0, { dtype: 'int32' }), raw.size(ids), Tensor.of(1, { dtype: 'int32' }));
  const rowsWanted = raw.dynamicPartition(row, part, { numPartitions });
  const placesOf = raw.dynamicPartition(places, part, { numPartitions });
  const found = parts.map((table, i) => rowsOf(table, rowsWanted[i] as Output, isDistinct));
  return raw.parallelDynamicStitch(placesOf, found);
}

/** Gathers on the partition's device, so that only the requested rows are sent. */
function rowsOf(table: Variable | Output, ids: Output, isDistinct: boolean): Output {
  const read = () => {
    if (!(table instanceof Variable)) return gather(table, ids);
    return isDistinct ? table.gatherDistinct(ids) : table.gather(ids);
  };
  const source = table instanceof Variable ? table.handle : table;
  // Within a function the table is an argument: there is no op to colocate with.
  return graphFor(ids) === source.graph ? source.graph.colocateWith(source, read) : read();
}

interface Place {
  /** The index of the partition, int32. */
  readonly part: Output;
  /** The row within the partition. */
  readonly row: Output;
}

function byModulo(ids: Output, parts: number): Place {
  return { part: cast(mod(ids, parts), 'int32'), row: floorDiv(ids, parts) };
}

/** TensorFlow's split: the first `extra` partitions hold one row more than the others. */
function byRuns(ids: Output, parts: readonly (Variable | Output)[]): Place {
  const sizes = parts.map((part) => part.shape?.[0] ?? null);
  if (sizes.some((size) => size === null)) {
    throw invalid(`Partition strategy 'div' needs partitions with a known number of rows`);
  }
  const total = (sizes as number[]).reduce((a, b) => a + b, 0);
  const base = Math.floor(total / parts.length);
  const extra = total % parts.length;
  checkRuns(sizes as number[], base, extra);
  if (base === 0) return { part: cast(ids, 'int32'), row: raw.zerosLike(ids) };
  // Divisions dominate the cost: use as few as possible.
  if (extra === 0) {
    const part = floorDiv(ids, base);
    return { part: cast(part, 'int32'), row: sub(ids, mul(part, base)) };
  }
  const part = maximum(floorDiv(ids, base + 1), floorDiv(sub(ids, extra), base));
  const first = add(mul(part, base), minimum(part, extra));
  return { part: cast(part, 'int32'), row: sub(ids, first) };
}

function checkRuns(sizes: readonly number[], base: number, extra: number): void {
  if (sizes.every((size, i) => size === base + (i < extra ? 1 : 0))) return;
  throw invalid(
    `The partitions have ${sizes.join(', ')} rows; strategy 'div' needs an even split, with the remainder in the first partitions`,
  );
}

/** Scales rows down whose Euclidean norm is above `maxNorm`. */
function clipRows(rows: Output, maxNorm: number): Output {
  if (!(maxNorm > 0)) throw invalid(`maxNorm must be above 0; got ${maxNorm}`);
  const rank = rows.rank;
  if (rank === null) throw invalid(`maxNorm needs rows of known rank; got ${rows}`);
  const axis = Array.from({ length: rank - 1 }, (_, i) => i + 1);
  const squares = sum(mul(rows, rows), { axis, keepDims: true });
  // The square root has no gradient at 0: rows of zeros bypass it.
  const isLong = greater(squares, 0);
  const norm = where(isLong, sqrt(where(isLong, squares, raw.onesLike(squares))), squares);
  return div(mul(rows, maxNorm), maximum(norm, maxNorm));
}

function rowShapeOf(parts: readonly (Variable | Output)[]): readonly (number | null)[] | null {
  return parts[0]?.shape?.slice(1) ?? null;
}

function restoreShape(rows: Output, ids: Output, rowShape: readonly (number | null)[] | null): Output {
  const shape = concat([raw.shape(ids), slice(raw.shape(rows), [1], [-1])], 0);
  const result = reshape(rows, shape);
  return ids.shape !== null && rowShape !== null ? result.setShape([...ids.shape, ...rowShape]) : result;
}
