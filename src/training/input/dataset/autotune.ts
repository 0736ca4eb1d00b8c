/**
 * Turns off TensorFlow's autotuning of a pipeline that it cannot change. Autotuning measures every element at every step
 * of the pipeline: with small records, 7 % of the CPU time of training.
 */
import { currentGraph, type Graph } from '../../../tensorflow/graph/graph.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { type Spec, typesOf } from './structure.js';

/** Steps with no parameter, or with one that the program has set. TensorFlow runs a `map`, for example, in parallel. */
const FIXED =
  /^((TFRecord|FixedLengthRecord|TextLine|TensorSlice|Shuffle|Repeat|Take|Skip|Shard|Batch|PaddedBatch|ParseExample|Prefetch)Dataset(V\d)?|Const)$/;
/** Without a prefetch at the end, autotuning adds one. */
const LAST = 'PrefetchDataset';
/** A serialized tensorflow.data.Options: `autotune_options { enabled: false }`. */
const NOT_AUTOTUNED = Uint8Array.of(0x3a, 0x02, 0x08, 0x00);

const automatic = new WeakSet<Graph>();

/** A dataset of the current graph has a parameter that TensorFlow is to choose. */
export function noteAutomatic(): void {
  automatic.add(currentGraph());
}

/** The dataset for an iterator: without autotuning if it has no use. */
export function tuned(variant: Output<'variant'>, spec: Spec): Output<'variant'> {
  if (variant.op.type !== LAST || automatic.has(variant.graph) || !isFixed(variant.op)) return variant;
  return raw.optionsDataset(variant, { serializedOptions: NOT_AUTOTUNED, ...typesOf(spec) });
}

function isFixed({ type, inputs }: Operation): boolean {
  return FIXED.test(type) && inputs.every(({ op }) => isFixed(op));
}
