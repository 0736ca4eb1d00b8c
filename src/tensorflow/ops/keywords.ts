/**
 * TensorFlow's keyword arguments. In Python every argument has a name: `softmax(x, axis=1, name='p')` is
 * `softmax(x, 1, name='p')`. So a function whose optional arguments are values, followed by an object with options, also
 * takes that object in the place of the first value that is left out, with the values under their names.
 */
import { withoutNull } from '../../base/errors/null-options.js';
import { currentGraph, type OpOptions } from '../graph/graph.js';
import { Tensor } from '../tensor/tensor.js';
import { isOutputLike } from './build.js';

type AnyFunction = (...args: never[]) => unknown;

type Leading<F extends AnyFunction, N extends 1 | 2 | 3> = N extends 1
  ? [Parameters<F>[0]]
  : N extends 2
    ? [Parameters<F>[0], Parameters<F>[1]]
    : [Parameters<F>[0], Parameters<F>[1], Parameters<F>[2]];

/** A function that takes the arguments after the first `N` by name, too. */
export type Keywords<F extends AnyFunction, N extends 1 | 2 | 3, K> = F &
  ((...args: [...Leading<F, N>, { readonly [P in keyof K]?: K[P] | null } & OpOptions]) => ReturnType<F>);

export interface KeywordsOptions {
  /** Whether the function has no options itself: they are then those of all ops that it makes. Default: false. */
  readonly scoped?: boolean;
}

/**
 * @param leading the number of arguments that are passed by position
 * @param names the names of the arguments after them, in order, with TensorFlow's names where they differ
 */
export const keywords =
  <K extends object>() =>
  <F extends AnyFunction, const N extends 1 | 2 | 3>(
    leading: N,
    names: readonly (string | readonly string[])[],
    f: F,
    { scoped = false }: KeywordsOptions = {},
  ): Keywords<F, N, K> => {
    const end = leading + names.length;
    const apply = f as unknown as (...args: readonly unknown[]) => unknown;
    const call = (...args: unknown[]): unknown => {
      const at = args.findIndex((arg, i) => i >= leading && isOptions(arg));
      const values = (at < 0 ? args : args.slice(0, at)).map((arg, i) =>
        i >= leading && arg === null ? undefined : arg,
      );
      if (at < 0) return apply(...values);
      const options = { ...withoutNull(args[at] as Record<string, unknown>) };
      for (const name of names.slice(Math.max(0, at - leading))) values.push(take(options, name));
      while (values.length < end) values.push(undefined);
      return scoped ? withOpOptions(args[0], options, () => apply(...values)) : apply(...values, options);
    };
    return call as unknown as Keywords<F, N, K>;
  };

/** Removes an argument from the options. */
function take(options: Record<string, unknown>, names: string | readonly string[]): unknown {
  let value: unknown;
  for (const name of [names].flat()) {
    value ??= options[name];
    delete options[name];
  }
  return value ?? undefined;
}

function isOptions(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || value instanceof Tensor || isOutputLike(value))
    return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

/** Applies the options of one op to all ops that `make` adds. */
export function withOpOptions<T>(
  input: unknown,
  { name, device, controlInputs }: OpOptions,
  make: () => T,
): T {
  const graph = isOutputLike(input) ? input.toOutput().graph : currentGraph();
  let run = make;
  for (const wrap of [
    name && ((inner: () => T) => graph.nameScope(name, inner)),
    device && ((inner: () => T) => graph.device(device, inner)),
    controlInputs && ((inner: () => T) => graph.controlDependencies(controlInputs, inner)),
  ]) {
    const inner = run;
    if (wrap) run = () => wrap(inner);
  }
  return run();
}
