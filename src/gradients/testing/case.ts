/** What a checked gradient is given: the op, its inputs, its attributes, all as data. */
import type { AttrValue } from '../../graph/attributes.js';
import type { Operation, Output } from '../../graph/operation.js';
import { type DType, isComplex, isFloating } from '../../tensor/dtype.js';
import { type Shape, sizeOf } from '../../tensor/shape.js';
import { Tensor } from '../../tensor/tensor.js';
import type { Differentiable } from '../gradients.js';

export type Random = () => number;

export interface InputSpec {
  /** A scalar when left out. */
  readonly shape?: Shape;
  /** float64 when left out. */
  readonly dtype?: DType;
  /** Random values lie in it, the upper end excluded; [-2, 2] when left out, for integers [0, 4]. */
  readonly range?: readonly [number, number];
  /** The elements, flat, in place of random ones; complex ones as re, im, re, im … */
  readonly values?: readonly (number | string)[] | ((random: Random) => readonly number[]);
  /** A Const of the graph where shapes are known; its gradient is not asked for. */
  readonly constant?: boolean;
}

interface CaseBase {
  readonly op: string;
  /** Says what is special about this case, beside the inputs. */
  readonly name?: string;
  /** In the order of the op's definition; an array for a list input. */
  readonly inputs: readonly (InputSpec | readonly InputSpec[])[];
  /** 2: the gradient of the gradient is checked. */
  readonly order?: 1 | 2;
  /** Which outputs gradients flow into; all of floating type when left out. */
  readonly outputs?: readonly number[];
  /** Why differences say nothing here: a kink, a kernel for float32 only. */
  readonly noNumeric?: string;
  /** Why TensorFlow's gradient is no measure: it has none, or a wrong one. */
  readonly noOracle?: string;
  /** Why the case makes no sense without static shapes. */
  readonly noUnknown?: string;
  /** On CPUs only oneDNN has the kernel: where it is off the gradient must be refused with a hint. */
  readonly needsOneDnn?: true;
  /** Why nothing and zeros mean the same here: TensorFlow gives one, Shoal the other. */
  readonly nullIsZero?: string;
  /** Of differences, relative to the largest element; 1e-6 when left out, 5e-3 where `step` is given. */
  readonly tolerance?: number;
  /** How far differences step to either side: a wide step makes them possible in float32. */
  readonly step?: number;
  /** Of TensorFlow's values, relative to the largest element; by type when left out. */
  readonly oracleTolerance?: number;
}

/** One op, made as it is. */
export interface OpCase extends CaseBase {
  readonly attrs?: Readonly<Record<string, AttrValue>>;
}

export interface Program {
  readonly outputs: readonly Output[];
  /** What is differentiated, one for each input that has a gradient; the inputs when left out. */
  readonly xs?: readonly Differentiable[];
  /** Runs, with the inputs fed, before every run of the outputs. */
  readonly init?: readonly Operation[];
}

/** A piece of graph that contains the op: a loop, a variable. */
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
/** Integers, constant: axes, sizes, indices. A number is a scalar, a list a vector unless `shape` says more. */
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

/** Numbers in [0, 1) that are the same in every run. */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

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
