/**
 * TensorFlow 1's named arguments for functions of labels and predictions, which are easily swapped:
 * `f({ labels, logits })` is the same as `f(labels, logits)`.
 */

import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import type { Output } from '../graph/operation.js';
import type { Operand } from './build.js';

/** A function of two operands, which are passed by position or by the names `A` and `B`. */
export interface NamedOperands<A extends string, B extends string, O extends object> {
  (first: Operand, second: Operand, options?: OrNull<O>): Output;
  (named: Readonly<Record<A | B, Operand>> & OrNull<O>): Output;
}

/** `kept` names options for which null is a value of its own. */
export function namedOperands<A extends string, B extends string, O extends object>(
  first: A,
  second: B,
  apply: (first: Operand, second: Operand, options: O) => Output,
  kept: readonly (keyof O)[] = [],
): NamedOperands<A, B, O> {
  return (...args: [Operand, Operand, OrNull<O>?] | [Readonly<Record<string, unknown>>]): Output => {
    if (args.length > 1) {
      const [a, b, options] = args as [Operand, Operand, OrNull<O>?];
      return apply(a, b, withoutNull<O>(options, kept));
    }
    const { [first]: a, [second]: b, ...options } = (args[0] ?? {}) as Readonly<Record<string, unknown>>;
    if (a === undefined || b === undefined) {
      throw invalid(`Pass both operands, by position or as { ${first}, ${second} }`);
    }
    return apply(a as Operand, b as Operand, withoutNull<O>(options as unknown as OrNull<O>, kept));
  };
}
