/**
 * Dropout: in training each element is set to 0 with probability `rate` and the others are scaled by
 * 1 / (1 - rate), which keeps the expected sum; otherwise x is unchanged.
 */

import { invalid } from '../../base/errors/errors.js';
import type { OrNull } from '../../base/errors/null-options.js';
import type { Names } from '../../base/errors/option-names.js';
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
import { layerOptions, OP_NAMES } from './weights.js';

/** Whether the layer is in training mode: fixed when the graph is built, or a tensor evaluated in each run. */
export type TrainingFlag = boolean | OutputLike;

export interface DropoutOptions extends OpOptions {
  /** The fraction of elements to drop, in [0, 1). Default: 0.5. */
  readonly rate?: number;
  /** Whether elements are dropped; default: false. */
  readonly training?: TrainingFlag;
  /** The shape of the mask, broadcast to x: [batch, 1, channels] drops complete channels. Default: the shape of x. */
  readonly noiseShape?: Shape | Output;
  /** The seed of the mask; default: the graph's seed, else random. */
  readonly seed?: number;
}

export const DROPOUT_NAMES: Names<DropoutOptions> = {
  ...OP_NAMES,
  rate: true,
  training: true,
  noiseShape: true,
  seed: true,
};

export function dropout(inputs: Operand, given: OrNull<DropoutOptions> = {}): Output {
  const options = layerOptions('dropout', DROPOUT_NAMES, given);
  const { rate = 0.5, training = false, noiseShape, seed, ...rest } = options;
  if (!(rate >= 0 && rate < 1)) throw invalid(`The rate of dropout must be in [0, 1); got ${rate}`);
  const x = asOutput(inputs);
  const named = { name: 'dropout', ...rest };
  if (training === false || rate === 0) return identity(x, named);
  return graphFor(x).nameScope(rest.name ?? 'dropout', () => {
    const size = noiseShape ?? (isFullyDefined(x.shape) ? x.shape : raw.shape(x));
    const draw = () => greaterEqual(randomUniform(size, 0, 1, { dtype: x.dtype, seed }), rate);
    const scaled = mul(x, 1 / (1 - rate));
    if (!isOutputLike(training)) return where(draw(), scaled, raw.zerosLike(x));
    // Only the mask is conditional: outside training no random numbers are drawn, and the gradient does not pass
    // through the branches.
    const flag = asOutput(training, 'bool');
    const keep = condOne(flag, draw, () => fill(size, true));
    return where(keep, where(flag, scaled, x), raw.zerosLike(x));
  });
}
