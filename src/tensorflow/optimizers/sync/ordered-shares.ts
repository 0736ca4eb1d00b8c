/**
 * The accumulators of deterministic synchronous training: one for each variable and worker. The chief takes one gradient
 * of each worker and adds them in the order of the workers, so the sum does not depend on who was first.
 *
 * Only the first gradient of a worker for a step is accepted: one that was restarted, or has a surplus token, computes the
 * same gradient again. So each variable has the step of the last gradient of each worker.
 *
 * Each device with variables has a counter: the step that its variables are at. Gradients of other steps are dropped. The
 * chief increments the counter between taking the gradients of a step and applying them. If the counters and the global
 * step differ, a step was applied on some devices and not on others: only a checkpoint brings them back to the same step
 * (see readiness).
 *
 * None of this is checkpointed. The chief sets it before the first step, and after each loss.
 */
import { invalid } from '../../../base/errors/errors.js';
import { IndexedSlices } from '../../gradients/index.js';
import { parseDevice } from '../../graph/device.js';
import { currentGraph, type Graph } from '../../graph/graph.js';
import type { Operation, Output } from '../../graph/operation.js';
import { group, zeros } from '../../ops/creation.js';
import * as raw from '../../ops/generated/index.js';
import { Tensor } from '../../tensor/tensor.js';
import { GraphKeys } from '../../variables/collections.js';
import type { Variable } from '../../variables/variable.js';
import type { GradientAndVariable } from '../optimizer.js';
import { cleared, latest, one, type Share, sizes } from './sync-shares.js';

const COUNTER = 'sync_replicas/step';
/** No gradient is of this step, and accumulators drop it as stale. */
export const noStep = () => Tensor.of(-1n);

export class StepCounters {
  readonly #graph: Graph;
  /** A variable on each device. */
  readonly #devices: ReadonlyMap<string, Variable>;

  constructor(graph: Graph, variables: readonly Variable[]) {
    this.#graph = graph;
    this.#devices = new Map(variables.map((variable) => [variable.device, variable]));
    for (const variable of this.#devices.values()) {
      const handle = this.#beside(variable);
      graph.colocateWith(variable.handle, () => {
        graph.addToCollection(GraphKeys.stepCounters, raw.readVariableOp(handle, { dtype: 'int64' }));
        graph.addToCollection(GraphKeys.stepCountersSet, raw.varIsInitializedOp(handle));
      });
    }
  }

  /** The counter on the device of a variable. */
  #beside({ handle }: Variable): Output<'resource'> {
    return this.#graph.colocateWith(handle, () =>
      raw.varHandleOp({ dtype: 'int64', shape: [], sharedName: COUNTER }),
    );
  }

  /** The step that the device of a variable is at. */
  at(variable: Variable): Output<'int64'> {
    const handle = this.#beside(variable);
    return this.#graph.colocateWith(variable.handle, () => raw.readVariableOp(handle, { dtype: 'int64' }));
  }

  set(step: Output | Tensor): Operation {
    return group(
      [...this.#devices.values()].map((variable) => {
        const handle = this.#beside(variable);
        return this.#graph.colocateWith(variable.handle, () => raw.assignVariableOp(handle, step));
      }),
    );
  }

  /** The gradients, once all of their device are taken and its counter is incremented. */
  counted(taken: readonly GradientAndVariable[]): GradientAndVariable[] {
    const graph = this.#graph;
    const incremented = new Map(
      [...this.#devices].map(([device, beside]) => {
        const gradients = taken.flatMap(([gradient, variable]) =>
          variable.device === device ? [(gradient as Output).op] : [],
        );
        const handle = this.#beside(beside);
        const increment = graph.colocateWith(beside.handle, () =>
          graph.controlDependencies(gradients, () => raw.assignAddVariableOp(handle, Tensor.of(1n))),
        );
        return [device, increment] as const;
      }),
    );
    return taken.map(([gradient, variable]) => {
      const after = incremented.get(variable.device) as Operation;
      const counted = graph.colocateWith(variable.handle, () =>
        graph.controlDependencies([after], () => raw.identity(gradient as Output)),
      );
      return [counted, variable];
    });
  }
}

export interface OrderedShareOptions {
  readonly localStep: Variable;
  readonly counters: StepCounters;
  /** The tasks of all workers. */
  readonly workers: readonly string[];
  readonly own: string;
}

/** The accumulator of a worker, and the last step that it added to it. */
function placeOf({ dtype, shape, name }: Variable, worker: string) {
  const { job, task } = parseDevice(worker);
  return {
    sum: raw.resourceConditionalAccumulator({
      dtype,
      shape,
      sharedName: `${name}/grad_accum/${job}/${task}`,
    }),
    last: raw.varHandleOp({ dtype: 'int64', shape: [], sharedName: `${name}/grad_step/${job}/${task}` }),
  };
}

export function orderedShare(
  gradient: Output | IndexedSlices,
  variable: Variable,
  { localStep, counters, workers, own }: OrderedShareOptions,
): Share {
  const { dtype, shape, name } = variable;
  if (gradient instanceof IndexedSlices) {
    throw invalid(`Deterministic synchronous training does not support the sparse gradient of ${name}`, {
      hint: 'Look rows up with a dense product, or train without deterministic.',
    });
  }
  const graph = currentGraph();
  const places = workers.map((worker) => placeOf(variable, worker));
  const { sum: mine, last } = places[workers.indexOf(own)] as (typeof places)[0];
  const step = localStep.read() as Output<'int64'>;
  const isFirst = raw.less(raw.readVariableOp(last, { dtype: 'int64' }), step);
  const isCurrent = raw.equal(step, counters.at(variable));
  const accepted = raw.selectV2(raw.logicalAnd(isFirst, isCurrent), step, noStep());
  const added = raw.resourceAccumulatorApplyGradient(mine, accepted, gradient);
  const give = graph.controlDependencies([added], () =>
    raw.assignVariableOp(last, raw.maximum(raw.readVariableOp(last, { dtype: 'int64' }), accepted)),
  );
  return {
    variable,
    give,
    take: () => {
      const [head, ...others] = places.map(({ sum }) =>
        raw.resourceAccumulatorTakeGradient(sum, one(), { dtype }),
      );
      const total = others.reduce((left, right) => raw.addV2(left, right), head as Output);
      return raw.realDiv(total, raw.cast(Tensor.of(workers.length, { dtype: 'int32' }), { dstT: dtype }));
    },
    advance: (now) =>
      group(places.map(({ sum }) => raw.resourceAccumulatorSetGlobalStep(sum, now as Output<'int64'>))),
    count: () =>
      raw.addN(places.map(({ sum }) => raw.resourceAccumulatorNumAccumulated(sum))) as Output<'int32'>,
    clear: (now) =>
      group(
        places.map(({ sum, last }) =>
          cleared(
            raw.resourceAccumulatorApplyGradient(sum, latest(), zeros(sizes(shape), dtype)),
            () => raw.resourceAccumulatorTakeGradient(sum, one(), { dtype }).op,
            () =>
              group([
                raw.resourceAccumulatorSetGlobalStep(sum, now as Output<'int64'>),
                raw.assignVariableOp(last, noStep()),
              ]),
          ),
        ),
      ),
  };
}
