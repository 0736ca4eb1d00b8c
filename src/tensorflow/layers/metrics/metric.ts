/**
 * A streaming metric: counters in local variables, an op that adds a batch to them, and the value so far.
 *
 *   const { value, updateOp, reset } = tf.metrics.accuracy(labels, predictions);
 *
 * Initialize the counters with `tf.localVariablesInitializer()`, or run `reset` to start again.
 */
import type { Operation, Output } from '../../graph/operation.js';
import { squeeze } from '../../ops/arrays.js';
import { asOutput, type Operand } from '../../ops/build.js';
import { zeros } from '../../ops/creation.js';
import * as raw from '../../ops/generated/index.js';
import { cast, mul } from '../../ops/math.js';
import type { Shape } from '../../tensor/shape.js';
import { GraphKeys } from '../../variables/collections.js';
import { variablesInitializer } from '../../variables/initialize.js';
import type { Variable } from '../../variables/variable.js';
import { newVariable } from '../../variables/variable-scope.js';
import { graphFor } from '../graph-for.js';
import { layerScope } from '../layer-scope.js';
import { checkSameShape, toRank } from '../losses/weighted.js';

export interface Metric {
  /** The metric over all batches so far. */
  readonly value: Output;
  /** Adds the batch and returns the updated metric. */
  readonly updateOp: Output;
  /** Resets the counters to 0. */
  readonly reset: Operation;
  readonly variables: readonly Variable[];
}

export interface MetricOptions {
  /** Broadcast to the values; 0 excludes a value. Default: 1. */
  readonly weights?: Operand;
  /** The name scope of the ops and variables; default: the name of the metric, such as `auc`. */
  readonly name?: string;
}

/** The counters of a metric under construction. */
export class Counters {
  readonly #variables: Variable[] = [];

  /** A local variable of zeros under the metric's name. */
  add(name: string, shape: Shape = []): Variable {
    const made = newVariable(() => zeros(shape), {
      name,
      trainable: false,
      collections: [GraphKeys.localVariables, GraphKeys.metricVariables],
    });
    this.#variables.push(made);
    return made;
  }

  get all(): readonly Variable[] {
    return this.#variables;
  }
}

/** Builds a metric from its counters, the additions of a batch, and the value computed from the counters. */
export function metric(
  defaultName: string,
  name: string | undefined,
  source: Output,
  body: (counters: Counters) => {
    readonly additions: readonly (readonly [Variable, Output])[];
    readonly value: (read: (counter: Variable) => Output) => Output;
  },
): Metric {
  return layerScope(source, defaultName, { name }, () => {
    const counters = new Counters();
    const { additions, value } = body(counters);
    const graph = graphFor(source);
    const added = additions.map(([counter, amount]) => counter.assignAdd(amount));
    const updateOp = graph.controlDependencies(added, () =>
      raw.identity(
        value((counter) => counter.read()),
        { name: 'update_op' },
      ),
    );
    return {
      value: raw.identity(
        value((counter) => counter.toOutput()),
        { name: 'value' },
      ),
      updateOp,
      reset: variablesInitializer(counters.all, 'reset'),
      variables: counters.all,
    };
  });
}

/** Labels, predictions and weights of the same rank: a last axis of size 1 may be missing in some. */
export function aligned(
  title: string,
  labels: Operand,
  predictions: Operand,
  weights: Operand | undefined,
): { labels: Output; predictions: Output; weights: Output | undefined } {
  const p = asOutput(predictions);
  const y = asOutput(labels);
  const [shortY, shortP] = [squeezeTo(y, p.rank), squeezeTo(p, y.rank)];
  checkSameShape(title, shortY, shortP);
  return { labels: shortY, predictions: shortP, weights: fitWeights(weights, shortP) };
}

/** Removes a last axis of size 1 if the other has one axis less. */
function squeezeTo(x: Output, rank: number | null): Output {
  if (x.rank === null || rank === null || x.rank !== rank + 1) return x;
  return (x.shape?.at(-1) ?? 1) === 1 ? squeeze(x, [-1]) : x;
}

/** Weights as float32, with the rank of the values. */
export function fitWeights(weights: Operand | undefined, values: Output): Output | undefined {
  if (weights === undefined) return undefined;
  return toRank(cast(weights, 'float32'), values.rank);
}

/** Weights broadcast to the shape of the values. */
export const broadcastWeights = (weights: Output, values: Output): Output =>
  mul(raw.onesLike(cast(values, 'float32')), weights);
