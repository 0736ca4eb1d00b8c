/** Gradients of select and clip ops: elements that were not selected get none. */
import type { Output } from '../../graph/operation.js';
import * as raw from '../../ops/generated/index.js';
import type { GradientTable } from '../gradient-function.js';
import { inputOf } from '../pieces.js';
import { unbroadcast } from './broadcast.js';

export const selectGradients: GradientTable = {
  /** The bounds may be scalars; they get the gradient where the value was clipped. */
  ClipByValue: (op, [grad], { needed }) => {
    if (!grad) return [null, null, null];
    const [x, low, high] = op.inputs as [Output, Output, Output];
    const [isBelow, isAbove] = [raw.less(x, low), raw.greater(x, high)];
    return [
      needed[0] ? raw.selectV2(raw.logicalOr(isBelow, isAbove), 0, grad) : null,
      needed[1] ? unbroadcast(low, x, raw.selectV2(isBelow, grad, 0)) : null,
      needed[2] ? unbroadcast(high, x, raw.selectV2(isAbove, grad, 0)) : null,
    ];
  },
  /** A vector selects rows, and nothing broadcasts. */
  Select: (op, [grad], { needed }) => {
    if (!grad) return [null, null, null];
    const condition = inputOf(op, 0);
    const zeros = raw.zerosLike(grad);
    return [
      null,
      needed[1] ? raw.select(condition, grad, zeros) : null,
      needed[2] ? raw.select(condition, zeros, grad) : null,
    ];
  },
  SelectV2: (op, [grad], { needed }) => {
    if (!grad) return [null, null, null];
    const [condition, a, b] = op.inputs as [Output, Output, Output];
    return [
      null,
      needed[1] ? unbroadcast(a, op.output(), raw.selectV2(condition, grad, 0)) : null,
      needed[2] ? unbroadcast(b, op.output(), raw.selectV2(condition, 0, grad)) : null,
    ];
  },
};
