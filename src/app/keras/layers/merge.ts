/** Layers with several inputs. */

import { invalid } from '../../../base/errors/errors.js';
import type { OrNull } from '../../../base/errors/null-options.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { concat } from '../../../tensorflow/ops/arrays.js';
import type { Operand } from '../../../tensorflow/ops/build.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import {
  addN,
  div,
  maximum as larger,
  logicalOr,
  mul,
  minimum as smaller,
  sub,
} from '../../../tensorflow/ops/math.js';
import type { Layer, Mask } from '../layer.js';
import { define, type NamedLayer } from './define.js';

/** A step that has data in any input has data. */
function merged(masks: readonly Mask[]): Mask {
  const [first, ...others] = masks;
  if (masks.some((mask) => mask === undefined)) return undefined;
  return others.reduce<Mask>((all, mask) => logicalOr(all as Output, mask as Output), first);
}

const merging = (
  className: string,
  options: OrNull<NamedLayer>,
  body: (inputs: readonly Output[]) => Operand,
  count: number | { readonly atLeast: number } = { atLeast: 1 },
  args: Readonly<Record<string, unknown>> = {},
): Layer =>
  define(
    {
      className,
      args,
      options,
      inputs: count,
      body: (inputs, { masks }) => ({ outputs: [body(inputs) as Output], masks: [merged(masks)] }),
    },
    { saved: { arguments: 'list' } },
  );

const folded = (fold: (a: Output, b: Output) => Output) => (inputs: readonly Output[]) =>
  inputs.reduce((all, input) => fold(all, input));

/** Joins its inputs along an axis; default: the last. */
export const concatenate = ({
  axis = -1,
  ...options
}: OrNull<NamedLayer> & { readonly axis?: number } = {}): Layer =>
  merging('Concatenate', options, (inputs) => concat([...inputs], axis), undefined, { axis });

/** The sum of its inputs, which have the same shape, or shapes that broadcast. */
export const add = (options: OrNull<NamedLayer> = {}): Layer =>
  merging('Add', options, (inputs) => {
    const shapes = new Set(inputs.map(({ shape }) => JSON.stringify(shape?.slice(1))));
    return shapes.size === 1 ? addN([...inputs]) : folded((a, b) => raw.addV2(a, b) as Output)(inputs);
  });

/** The first input minus the second. */
export const subtract = (options: OrNull<NamedLayer> = {}): Layer =>
  merging('Subtract', options, ([a, b]) => sub(a as Output, b as Output), 2);

export const multiply = (options: OrNull<NamedLayer> = {}): Layer =>
  merging(
    'Multiply',
    options,
    folded((a, b) => mul(a, b) as Output),
  );

export const average = (options: OrNull<NamedLayer> = {}): Layer =>
  merging('Average', options, (inputs) =>
    div(folded((a, b) => raw.addV2(a, b) as Output)(inputs), inputs.length),
  );

export const maximum = (options: OrNull<NamedLayer> = {}): Layer =>
  merging(
    'Maximum',
    options,
    folded((a, b) => larger(a, b) as Output),
  );

export const minimum = (options: OrNull<NamedLayer> = {}): Layer =>
  merging(
    'Minimum',
    options,
    folded((a, b) => smaller(a, b) as Output),
  );

/** The products of two inputs [batch, …], summed over an axis of each. */
export const dot = (axes: number | readonly [number, number], options: OrNull<NamedLayer> = {}): Layer =>
  merging(
    'Dot',
    options,
    ([a, b]) => {
      const [first, second] = typeof axes === 'number' ? [axes, axes] : axes;
      const letters = (x: Output, axis: number, own: string): string => {
        if (x.rank === null || x.rank > 5) throw invalid(`Layer dot needs inputs of known rank; got ${x}`);
        const at = axis < 0 ? axis + x.rank : axis;
        return Array.from({ length: x.rank }, (_, i) => (i === 0 ? 'z' : i === at ? 'y' : own[i])).join('');
      };
      const [left, right] = [letters(a as Output, first, 'abcde'), letters(b as Output, second, 'fghij')];
      const result = `z${(left + right).replaceAll('z', '').replaceAll('y', '')}`;
      const product = raw.einsum([a as Output, b as Output], { equation: `${left},${right}->${result}` });
      // Two vectors have one product, in a row of its own.
      return result === 'z' ? product.reshape([-1, 1]) : product;
    },
    2,
    { axes },
  );
