/**
 * Weight penalties. A layer adds the penalty of a variable to the collection of regularization losses once, when it
 * creates the variable; `losses.getTotalLoss` adds them to the loss.
 */
import type { Output } from '../graph/operation.js';
import { abs, add, mul, square, sum } from '../ops/math.js';
import { GraphKeys } from '../variables/collections.js';
import { PartitionedVariable } from '../variables/partitioned.js';
import type { Variable } from '../variables/variable.js';

/** The penalty of a weight tensor, a scalar. */
export type Regularizer = (weights: Output) => Output;

/** What a penalty was made of. */
export interface Penalty {
  readonly className: 'l1' | 'l2' | 'l1l2';
  readonly config: Readonly<Record<string, number>>;
}

const PENALTY = Symbol('shoal.penalty');
const described = (penalty: Penalty, body: Regularizer): Regularizer =>
  Object.assign((weights: Output) => body(weights), { [PENALTY]: penalty });

/** How a penalty of this file was made; undefined for another function. */
export const penaltyOf = (regularizer: Regularizer & { readonly [PENALTY]?: Penalty }): Penalty | undefined =>
  regularizer[PENALTY];

/** scale · Σ|w| */
export const l1 = (scale = 0.01): Regularizer =>
  described({ className: 'l1', config: { l1: scale } }, (weights) => mul(sum(abs(weights)), scale));

/** scale · Σw², as in Keras. TensorFlow 1's contrib l2_regularizer uses half of that. */
export const l2 = (scale = 0.01): Regularizer =>
  described({ className: 'l2', config: { l2: scale } }, (weights) => mul(sum(square(weights)), scale));

export const l1l2 = ({ l1: absolute = 0.01, l2: squared = 0.01 } = {}): Regularizer =>
  described({ className: 'l1l2', config: { l1: absolute, l2: squared } }, (weights) =>
    add(l1(absolute)(weights), l2(squared)(weights)),
  );

/** Adds the penalty of a variable (of each partition if partitioned), unless already added. */
export function regularize(variable: Variable | PartitionedVariable, regularizer: Regularizer): void {
  if (variable instanceof PartitionedVariable) {
    for (const part of variable.parts) regularize(part, regularizer);
    return;
  }
  const { graph, name } = variable;
  const scope = `${name}/Regularizer`;
  if (graph.hasOperation(`${scope}/loss`)) return;
  const loss = graph.asDefault(() =>
    graph.colocateWith(variable.handle, () =>
      graph.nameScope(`${scope}/`, () => {
        const penalty = regularizer(variable.toOutput());
        return graph.op('Identity', [penalty], {}, { name: `${scope}/loss/` }).output();
      }),
    ),
  );
  graph.addToCollection(GraphKeys.regularizationLosses, loss);
}
