/** TensorFlow 1's casts by the name of the dtype, and Einstein sums. */
import { invalid } from '../../base/errors/errors.js';
import type { OpOptions } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import type { DType } from '../tensor/dtype.js';
import { asOutput, isOutputLike, type Operand } from './build.js';
import * as raw from './generated/index.js';
import { cast } from './math.js';

const caster =
  <D extends DType>(dtype: D) =>
  (x: Operand, options?: OpOptions): Output<D> =>
    cast(x, dtype, options);

export const toBfloat16 = caster('bfloat16');
export const toComplex64 = caster('complex64');
export const toComplex128 = caster('complex128');
export const toDouble = caster('float64');
export const toFloat = caster('float32');
export const toInt32 = caster('int32');
export const toInt64 = caster('int64');

/** Sums over the axes of an equation: `einsum('ij,jk->ik', a, b)`. The tensors may be one list. */
export function einsum(equation: string, ...given: readonly (Operand | OpOptions)[]): Output {
  const last = given.at(-1);
  const hasOptions =
    typeof last === 'object' && last !== null && Object.getPrototypeOf(last) === Object.prototype;
  const options = (hasOptions ? last : {}) as OpOptions;
  const own = (hasOptions ? given.slice(0, -1) : given) as readonly Operand[];
  const [first] = own;
  const isList = own.length === 1 && Array.isArray(first) && first.some((one) => isOutputLike(one));
  const inputs = isList ? (first as unknown as readonly Operand[]) : own;
  if (inputs.length === 0) throw invalid('einsum needs at least one tensor after its equation');
  const dtype = inputs.find(isOutputLike)?.toOutput().dtype;
  return raw.einsum(
    inputs.map((input) => asOutput(input, isOutputLike(input) ? undefined : dtype)),
    { equation, ...options },
  );
}
