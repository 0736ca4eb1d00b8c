/** The cases of gradient checks as data: the op, its inputs and attributes. */
import type { AttrValue } from '../../graph/attributes.js';
import type { Operation, Output } from '../../graph/operation.js';
import { type DType, isComplex, isFloating } from '../../tensor/dtype.js';
import { type Shape, sizeOf } from '../../tensor/shape.js';
import { Tensor } from '../../tensor/tensor.js';
import type { Differentiable } from '../gradients.js';

export type Random = () => number;

export interface InputSpec {
  /** Default: a scalar. */
  readonly shape?: Shape;
  /** Default: float64. */
  readonly dtype?: DType;
  /** The half-open range of random values. Default: [-2, 2), for integers [0, 4). */
  readonly range?: readonly [number, number];
  /** The flat elements; complex ones as re, im, re, im … Default: random. */
  readonly values?: readonly (number | string)[] | ((random: Random) => readonly number[]);
  /** A Const in the graph if shapes are known; its gradient is not checked. */
  readonly constant?: boolean;
}

interface CaseBase {
  readonly op: string;
  /** Describes what distinguishes this case, besides the inputs. */
  readonly name?: string;
  /** In the order of the op's definition; an array for a list input. */
  readonly inputs: readonly (InputSpec | readonly InputSpec[])[];
  /** 2: the gradient of the gradient is checked. */
  readonly order?: 1 | 2;
  /** The outputs with an incoming gradient. Default: all floating-point ones. */
  readonly outputs?: readonly number[];
  /** Why finite differences cannot be used: a kink, a kernel for float32 only. */
  readonly noNumeric?: string;
  /** Why TensorFlow's gradient is not compared: it has none, or a wrong one. */
  readonly noOracle?: string;
  /** Why the case needs static shapes. */
  readonly noUnknown?: string;
  /** On CPUs only oneDNN has the kernel: without it the gradient must fail with a hint. */
  readonly needsOneDnn?: true;
  /** Why null and zeros are equivalent: TensorFlow returns one, Shoal the other. */
  readonly nullIsZero?: string;
  /** For finite differences, relative to the largest element. Default: 1e-6, or 5e-3 with `step`. */
  readonly tolerance?: number;
  /** The step of the central differences: a large step makes them possible in float32. */
  readonly step?: number;
  /** For TensorFlow's values, relative to the largest element. Default: depends on the dtype. */
  readonly oracleTolerance?: number;
}

/** A single op. */
export interface OpCase extends CaseBase {
  readonly attrs?: Readonly<Record<string, AttrValue>>;
}

export interface Program {
  readonly outputs: readonly Output[];
  /** The tensors to differentiate by, one per input with a gradient. Default: the inputs. */
  readonly xs?: readonly Differentiable[];
  /** Run with the inputs before every run of the outputs. */
  readonly init?: readonly Operation[];
}

/** A subgraph that contains the op: a loop, a variable. */
export interface ProgramCase extends CaseBase {
  readonly build: (inputs: readonly Output[]) => readonly Output[] | Program;
}

export type GradientCase = OpCase | ProgramCase;

/** A floating input. */
export const f = (shape: Shape = [], range?: readonly [number, number]): InputSpec => ({
  shape,
  ...(range ? { range } : {}),
});
export const f32 = (shape: Shape = [], range?: readonly [number, number]): InputSpec => ({
  ...f(shape, range),
  dtype: 'float32',
});
export const complex = (shape: Shape = [], range?: readonly [number, number]): InputSpec => ({
  ...f(shape, range),
  dtype: 'complex128',
});
/** Constant integers: axes, sizes, indices. A number is a scalar; a list has `shape` (default: a vector). */
export const ints = (
  values: number | readonly number[],
  { dtype = 'int32', shape }: { readonly dtype?: DType; readonly shape?: Shape } = {},
): InputSpec => ({
  dtype,
  shape: shape ?? (typeof values === 'number' ? [] : [values.length]),
  values: typeof values === 'number' ? [values] : values,
  constant: true,
});

export const isDifferentiable = ({ dtype = 'float64', constant }: InputSpec): boolean =>
  !constant && (isFloating(dtype) || isComplex(dtype));

export const dtypeOf = ({ dtype = 'float64' }: InputSpec): DType => dtype;

export function inputValue(spec: InputSpec, random: Random): Tensor {
  const { shape = [], values } = spec;
  const dtype = dtypeOf(spec);
  const count = sizeOf(shape) * (isComplex(dtype) ? 2 : 1);
  const isReal = isFloating(dtype) || isComplex(dtype);
  const [low, high] = spec.range ?? (isReal ? [-2, 2] : dtype === 'bool' ? [0, 2] : [0, 4]);
  const draw = () => {
    const value = low + (high - low) * random();
    return isReal ? value : Math.floor(value);
  };
  const flat =
    typeof values === 'function' ? values(random) : (values ?? Array.from({ length: count }, draw));
  if (flat.length !== count) throw new Error(`an input of shape [${shape}] needs ${count} values`);
  if (dtype === 'string') return Tensor.of(flat as string[], { dtype, shape });
  const numbers = flat as readonly number[];
  const elements =
    dtype === 'bool'
      ? numbers.map(Boolean)
      : isComplex(dtype)
        ? Array.from({ length: count / 2 }, (_, i) => ({
            re: numbers[2 * i] as number,
            im: numbers[2 * i + 1] as number,
          }))
        : numbers;
  return Tensor.of(elements, { dtype, shape });
}
