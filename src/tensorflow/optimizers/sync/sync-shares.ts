/**
 * The accumulators of synchronous training: one for each variable, on its device. Workers add gradients, in the order of
 * their arrival, and the chief takes the mean.
 */
import { IndexedSlices } from '../../gradients/index.js';
import { currentGraph } from '../../graph/graph.js';
import type { Operation, Output } from '../../graph/operation.js';
import { gather } from '../../ops/arrays.js';
import { zeros } from '../../ops/creation.js';
import * as raw from '../../ops/generated/index.js';
import { cast } from '../../ops/math.js';
import { Tensor } from '../../tensor/tensor.js';
import type { Variable } from '../../variables/variable.js';

/** The accumulator ops of one variable: the worker adds, the chief takes. */
export interface Share {
  readonly variable: Variable;
  readonly give: Operation;
  readonly take: (required: Tensor) => Output | IndexedSlices;
  readonly advance: (step: Output) => Operation;
  /** Drops the accumulated gradients, and later ones of steps before this one. */
  readonly clear: (step: Output | Tensor) => Operation;
  /** The number of gradients that are there. */
  readonly count: () => Output<'int32'>;
}

/** The largest step: a gradient of it is never stale. */
export const latest = () => Tensor.of(2n ** 62n);
export const firstStep = () => Tensor.of(0n);
export const one = () => Tensor.of(1, { dtype: 'int32' });

/** Adds a zero gradient first, because taking from an empty accumulator blocks. */
export function cleared(zero: Operation, take: () => Operation, setStep: () => Operation): Operation {
  const graph = currentGraph();
  return graph.controlDependencies([zero], () => graph.controlDependencies([take()], setStep));
}

export function share(gradient: Output | IndexedSlices, variable: Variable, localStep: Variable): Share {
  const { dtype, shape, name } = variable;
  const sharedName = `${name}/grad_accum`;
  if (!(gradient instanceof IndexedSlices)) {
    const sum = raw.resourceConditionalAccumulator({ dtype, shape, sharedName });
    return {
      variable,
      clear: (step) =>
        cleared(
          raw.resourceAccumulatorApplyGradient(sum, latest(), zeros(sizes(shape), dtype)),
          () => raw.resourceAccumulatorTakeGradient(sum, one(), { dtype }).op,
          () => raw.resourceAccumulatorSetGlobalStep(sum, step),
        ),
      give: raw.resourceAccumulatorApplyGradient(sum, localStep, gradient),
      take: (required) => raw.resourceAccumulatorTakeGradient(sum, required, { dtype }),
      advance: (step) => raw.resourceAccumulatorSetGlobalStep(sum, step),
      count: () => raw.resourceAccumulatorNumAccumulated(sum),
    };
  }
  const sum = raw.sparseConditionalAccumulator({ dtype, shape, sharedName });
  const once = inOrder(gradient.deduplicated(), variable);
  const none = Tensor.of(new BigInt64Array(0));
  const row = () => zeros([1, ...sizes(shape).slice(1)], dtype);
  return {
    variable,
    clear: (step) =>
      cleared(
        raw.sparseAccumulatorApplyGradient(sum, latest(), Tensor.of(BigInt64Array.of(0n)), row(), none, {
          hasKnownShape: false,
        }),
        () => raw.sparseAccumulatorTakeGradient(sum, one(), { dtype }).values.op,
        () => raw.accumulatorSetGlobalStep(sum, step),
      ),
    give: raw.sparseAccumulatorApplyGradient(sum, localStep, once.indices, once.values, none, {
      hasKnownShape: false,
    }),
    take: (required) => {
      const { indices, values } = raw.sparseAccumulatorTakeGradient(sum, required, { dtype });
      return new IndexedSlices(values, indices, gradient.denseShape, true);
    },
    advance: (step) => raw.accumulatorSetGlobalStep(sum, step),
    count: () => raw.accumulatorNumAccumulated(sum),
  };
}

/** The shape of a variable is fully defined. */
export const sizes = (shape: Variable['shape']): number[] => (shape ?? []).map(Number);

/**
 * The rows sorted by index. The accumulator merges sorted lists; unsorted ones would leave duplicate rows, depending on
 * the order of arrival. Each row is the mean over the gradients that contain it.
 */
function inOrder({ indices, values }: IndexedSlices, { shape }: Variable) {
  const places = raw.range(
    Tensor.of(0, { dtype: 'int32' }),
    raw.size(indices),
    Tensor.of(1, { dtype: 'int32' }),
  );
  const column = raw.expandDims(cast(indices, 'int64'), Tensor.of(1, { dtype: 'int32' }));
  const rows = Tensor.of(BigInt64Array.of(BigInt(shape?.[0] ?? Number.MAX_SAFE_INTEGER)));
  const ordered = raw.sparseReorder(column, places, rows);
  return {
    indices: raw.squeeze(ordered.outputIndices, { squeezeDims: [1] }),
    values: gather(values, ordered.outputValues),
  };
}
