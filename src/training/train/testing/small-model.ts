/** The model of scenario 000 in one process, for tests. */
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { constant } from '../../../tensorflow/ops/creation.js';
import { GradientDescentOptimizer } from '../../../tensorflow/optimizers/rules/gradient-descent.js';
import * as summary from '../../../tensorflow/summary/index.js';
import { createGlobalStep } from '../../../tensorflow/variables/global-step.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { variable } from '../../../tensorflow/variables/variable-scope.js';

export interface SmallModel {
  readonly graph: Graph;
  readonly globalStep: Variable<'int64'>;
  readonly w: Variable;
  readonly loss: Output;
  readonly trainOp: Operation;
}

export function smallModel(): SmallModel {
  const graph = new Graph();
  graph.seed = 7;
  return graph.asDefault(() => {
    const globalStep = createGlobalStep();
    const x = constant([0.1, 0.5, 0.9]);
    const y = constant([0.31, 0.35, 0.39]);
    const w = variable('w', { shape: [1], initializer: [1] });
    const b = variable('b', { shape: [1], initializer: [0] });
    const loss = x.mul(w).add(b).sub(y).square().mean();
    summary.scalar('loss', loss);
    const trainOp = new GradientDescentOptimizer(0.5).minimize(loss, { globalStep });
    return { graph, globalStep, w, loss, trainOp };
  });
}
