/**
 * Dropout: in training each element is 0 with probability `rate` and the others grow by 1 / (1 - rate), so
 * that sums stay what they were on average; otherwise x passes as it is.
 */
import { invalid } from '../errors/errors.js';
import type { OpOptions } from '../graph/graph.js';
import type { Output, OutputLike } from '../graph/operation.js';
import { identity } from '../ops/arrays.js';
import { asOutput, isOutputLike, type Operand } from '../ops/build.js';
import { condOne } from '../ops/control-flow.js';
import { fill } from '../ops/creation.js';
import * as raw from '../ops/generated/index.js';
import { greaterEqual, mul, where } from '../ops/math.js';
import { randomUniform } from '../ops/random.js';
import { isFullyDefined, type Shape } from '../tensor/shape.js';
import { graphFor } from './graph-for.js';

/** Whether the graph is built for training: known when it is built, or told in each run. */
export type Training = boolean | OutputLike;

export interface DropoutOptions extends OpOptions {
  /** The share of elements to drop, from 0 up to but not 1. */
  readonly rate?: number | undefined;
  readonly training?: Training | undefined;
  /** The shape of the mask, broadcast to x: [batch, 1, channels] drops whole columns. */
  readonly noiseShape?: Shape | Output | undefined;
  readonly seed?: number | undefined;
}

export function dropout(inputs: Operand, options: DropoutOptions = {}): Output {
  const { rate = 0.5, training = false, noiseShape, seed, ...rest } = options;
  if (!(rate >= 0 && rate < 1)) throw invalid(`The rate of dropout must be in [0, 1), it is ${rate}`);
  const x = asOutput(inputs);
  const named = { name: 'dropout', ...rest };
  if (training === false || rate === 0) return identity(x, named);
  return graphFor(x).nameScope(rest.name ?? 'dropout', () => {
    const size = noiseShape ?? (isFullyDefined(x.shape) ? x.shape : raw.shape(x));
    const draw = () => greaterEqual(randomUniform(size, 0, 1, { dtype: x.dtype, seed }), rate);
    const scaled = mul(x, 1 / (1 - rate));
    if (!isOutputLike(training)) return where(draw(), scaled, raw.zerosLike(x));
    // Only the mask is conditional: no random numbers are drawn outside of training, and the gradient
    // does not pass through the branches.
    const flag = asOutput(training, 'bool');
    const keep = condOne(flag, draw, () => fill(size, true));
    return where(keep, where(flag, scaled, x), raw.zerosLike(x));
  });
}
