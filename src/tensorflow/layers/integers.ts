/** Ids and class numbers: integers, for which JavaScript has no type of its own. */
import { invalid } from '../../base/errors/errors.js';
import type { Output } from '../graph/operation.js';
import { asOutput, isOutputLike, type Operand } from '../ops/build.js';
import { dtypeOfValue } from '../tensor/literal.js';
import { Tensor } from '../tensor/tensor.js';

/** Numbers become int32, BigInts int64; an output must be one of the two. */
export function integerOutput(what: string, operand: Operand): Output {
  const isLiteral = !(isOutputLike(operand) || operand instanceof Tensor || ArrayBuffer.isView(operand));
  const output = isLiteral
    ? asOutput(operand, dtypeOfValue(operand) === 'int64' ? 'int64' : 'int32')
    : asOutput(operand);
  if (output.dtype !== 'int32' && output.dtype !== 'int64') {
    throw invalid(`${what} must be int32 or int64; ${output} is ${output.dtype}`, {
      hint: "Convert them: x.cast('int64').",
    });
  }
  return output;
}
