/** Creates tensors: constants, placeholders, ranges, fills. */

import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import type { OpOptions } from '../graph/graph.js';
import { currentGraph } from '../graph/graph.js';
import { Operation, type Output, type OutputLike } from '../graph/operation.js';
import type { DType } from '../tensor/dtype.js';
import { dtypeOfValue, type NestedValue } from '../tensor/literal.js';
import { isFullyDefined, type PartialShape, type Shape } from '../tensor/shape.js';
import { Tensor, type TensorLike, toTensor } from '../tensor/tensor.js';
import { asOutput, constantIn, isOutputLike, type Operand } from './build.js';
import * as raw from './generated/index.js';
import { keywords } from './keywords.js';

export interface ConstantOptions<D extends DType = DType> extends OpOptions {
  /** The dtype; default: that of the value, float32 for numbers. */
  readonly dtype?: D;
  /** The shape; default: that of the value. */
  readonly shape?: Shape;
}

/** A constant. The default dtype of numbers is float32; a scalar fills `shape`. */
export function constant<D extends DType = DType>(
  value: TensorLike,
  given: OrNull<ConstantOptions<D>> = {},
): Output<D> {
  const options = withoutNull<ConstantOptions<D>>(given);
  const { dtype, shape, ...rest } = options;
  if (value instanceof Tensor) {
    const tensor = toTensor(value, dtype ? { dtype } : {});
    return constantIn(currentGraph(), shape ? tensor.reshape(shape) : tensor, undefined, rest) as Output<D>;
  }
  const isFill = shape !== undefined && !Array.isArray(value) && !ArrayBuffer.isView(value);
  const tensor = Tensor.of(value, {
    dtype: dtype ?? (dtypeOfValue(value as NestedValue) as D),
    ...(shape && !isFill ? { shape } : {}),
  });
  if (isFill)
    return raw.fill(constantIn(currentGraph(), Tensor.of(Int32Array.from(shape))), tensor, rest) as Output<D>;
  return constantIn(currentGraph(), tensor, undefined, rest) as Output<D>;
}

export const scalar = constant;

/** A value to be fed in each run. Default: dtype float32, unknown shape. */
export function placeholder<D extends DType = 'float32'>(
  options: { readonly dtype?: D | null; readonly shape?: PartialShape } & OpOptions = {},
): Output<D> {
  const { dtype, shape = null, ...rest } = options;
  return raw.placeholder({ dtype: dtype ?? 'float32', shape, ...rest }) as Output<D>;
}

/** A placeholder with a default value. */
export function placeholderWithDefault(input: Operand, shape: PartialShape, options: OpOptions = {}): Output {
  return raw.placeholderWithDefault(input, { shape, ...options });
}

export const zeros = keywords<{ dtype: DType }>()(
  1,
  ['dtype'],
  <D extends DType = 'float32'>(shape: Shape | Operand, dtype: D = 'float32' as D): Output<D> =>
    filled(shape, 0, dtype),
  { scoped: true },
);

export const ones = keywords<{ dtype: DType }>()(
  1,
  ['dtype'],
  <D extends DType = 'float32'>(shape: Shape | Operand, dtype: D = 'float32' as D): Output<D> =>
    filled(shape, 1, dtype),
  { scoped: true },
);

function filled<D extends DType>(shape: Shape | Operand, value: 0 | 1, dtype: D): Output<D> {
  if (dtype === 'string' && value === 1) throw invalid('ones() does not support dtype string');
  const element = dtype === 'bool' ? value === 1 : dtype === 'string' ? '' : value;
  return raw.fill(asShape(shape), Tensor.of(element, { dtype })) as Output<D>;
}

export function fill<D extends DType = DType>(
  shape: Shape | Operand,
  value: Operand<D>,
  options: OpOptions = {},
): Output<D> {
  return raw.fill(asShape(shape), value, options) as Output<D>;
}

/** A shape as a tensor: a list of numbers, even if empty, becomes an int32 vector. */
export function asShape(shape: Shape | Operand): Output {
  return Array.isArray(shape) && shape.every((dim) => typeof dim === 'number')
    ? constantIn(currentGraph(), Tensor.of(Int32Array.from(shape as number[])))
    : asOutput(shape as Operand);
}

export const zerosLike = <D extends DType>(x: Operand<D>, options: OpOptions = {}): Output<D> =>
  raw.zerosLike(x, options);
export const onesLike = <D extends DType>(x: Operand<D>, options: OpOptions = {}): Output<D> => {
  const output = asOutput(x);
  if (isFullyDefined(output.shape)) return ones(output.shape, output.dtype);
  return raw.fill(
    raw.shape(output),
    Tensor.of(output.dtype === 'bool' ? true : 1, { dtype: output.dtype }),
    options,
  ) as Output<D>;
};

/** Numbers in [start, limit). */
export function range(start: Operand, limit: Operand, delta: Operand = 1, dtype: DType = 'int32'): Output {
  const given = [start, limit, delta].find(isOutputLike)?.toOutput().dtype ?? dtype;
  return raw.range(
    asOutput(start, typed(start, given)),
    asOutput(limit, typed(limit, given)),
    asOutput(delta, typed(delta, given)),
  );
}

const typed = (operand: Operand, dtype: DType): DType | undefined =>
  typeof operand === 'number' || typeof operand === 'bigint' ? dtype : undefined;

export const linspace = (start: Operand, stop: Operand, num: Operand, options?: OpOptions): Output =>
  raw.linSpace(start, stop, num, options);

export interface OneHotOptions extends OpOptions {
  /** The value at each index; default: 1. */
  readonly onValue?: number;
  /** The value elsewhere; default: 0. */
  readonly offValue?: number;
  /** The dtype; default: 'float32'. */
  readonly dtype?: DType;
  /** The axis of the depth; default: a new last one. */
  readonly axis?: number;
}

/** `onValue` (default: 1) at each index, `offValue` (default: 0) elsewhere, along `axis` (default: a new last one). */
export function oneHot(indices: Operand, depth: Operand, options: OrNull<OneHotOptions> = {}): Output {
  const {
    onValue = 1,
    offValue = 0,
    dtype = 'float32',
    axis = -1,
    ...rest
  } = withoutNull<OneHotOptions>(options);
  return raw.oneHot(
    indices,
    asOutput(depth, typed(depth, 'int32')),
    asOutput(onValue, dtype),
    asOutput(offValue, dtype),
    { axis, ...rest },
  );
}

export const eye = (rows: number, columns = rows, dtype: DType = 'float32'): Output => {
  const size = Math.min(rows, columns);
  const diagonal = raw.matrixDiag(ones([size], dtype));
  return rows === columns
    ? diagonal
    : raw.pad(
        diagonal,
        Tensor.of(
          [
            [0, rows - size],
            [0, columns - size],
          ],
          { dtype: 'int32' },
        ),
      );
};

/** An op that only waits for the current control dependencies. */
export const noOp = (options: OpOptions = {}): Operation => raw.noOp(options);

type Grouped = Operation | OutputLike | readonly Grouped[];

/** An op that completes when all of the given ones have: `group(a, b)`, or `group([a, b], { name })`. */
export function group(...ops: readonly (Grouped | OpOptions)[]): Operation {
  const given: (Operation | Output)[] = [];
  let options: OpOptions = {};
  const add = (item: Grouped | OpOptions): void => {
    if (Array.isArray(item)) item.forEach(add);
    else if (item instanceof Operation) given.push(item);
    else if (isOutputLike(item)) given.push(item.toOutput());
    else options = item as OpOptions;
  };
  ops.forEach(add);
  return currentGraphOf(given).controlDependencies(given, () =>
    raw.noOp({ ...options, name: options.name ?? 'group_deps' }),
  );
}

function currentGraphOf(ops: readonly (Operation | Output)[]) {
  return ops[0]?.graph ?? currentGraph();
}

/** `x`, after `ops`. */
export function withDependencies<D extends DType>(
  ops: readonly (Operation | Output)[],
  x: Output<D>,
): Output<D> {
  return x.graph.controlDependencies(ops, () => raw.identity(x));
}
