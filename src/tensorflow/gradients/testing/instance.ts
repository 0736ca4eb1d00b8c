/** A case as an executable graph: its forward part, its gradients, values for its inputs. */

import { Graph } from '../../graph/graph.js';
import type { Operation, Output } from '../../graph/operation.js';
import { identity } from '../../ops/arrays.js';
import { asOutput } from '../../ops/build.js';
import { placeholder } from '../../ops/creation.js';
import { Session } from '../../session/session.js';
import { seededRandom } from '../../tensor/seeded-random.js';
import { Tensor } from '../../tensor/tensor.js';
import { Variable } from '../../variables/variable.js';
import { type Differentiable, gradients, isDifferentiableType } from '../gradients.js';
import { type Gradient, IndexedSlices, toDense } from '../indexed-slices.js';
import {
  dtypeOf,
  type GradientCase,
  type InputSpec,
  inputValue,
  isDifferentiable,
  type Program,
} from './case.js';
import { type OracleQuestion, toOracle } from './oracle.js';

export interface Instance {
  readonly question: OracleQuestion;
  /** The dense gradients of the xs; null if Shoal has none. */
  gradients(): Promise<{ readonly value: Tensor | null; readonly sparse: boolean }[]>;
  /** The flat gradients of the xs by central differences, complex ones interleaved. */
  differences(): Float64Array[];
  close(): Promise<void>;
}

/** Whether placeholders have a known shape or an unknown rank; the values are the same. */
export async function makeInstance(
  one: GradientCase,
  seed: number,
  shapes: 'known' | 'unknown',
): Promise<Instance> {
  const random = seededRandom(seed);
  const graph = new Graph();
  const feeds = new Map<Output, Tensor>();
  const fed = (value: Tensor, name: string): Output => {
    const shape = shapes === 'known' ? value.shape : null;
    const output = placeholder({ dtype: value.dtype, shape, name });
    feeds.set(output, value);
    return output;
  };
  const flatInputs: { readonly spec: InputSpec; readonly output: Output }[] = [];
  const makeInput = (spec: InputSpec): Output => {
    const value = inputValue(spec, random);
    const isConstant = spec.constant && (shapes === 'known' || value.dtype === 'string');
    const output = isConstant ? asOutput(value) : fed(value, `input_${flatInputs.length}`);
    flatInputs.push({ spec, output });
    return output;
  };

  const forward = graph.asDefault(() => {
    const inputs = one.inputs.map((spec) =>
      Array.isArray(spec) ? (spec as InputSpec[]).map(makeInput) : makeInput(spec as InputSpec),
    );
    if ('build' in one) {
      const built = one.build(inputs.flat());
      return Array.isArray(built) ? ({ outputs: built } as Program) : (built as Program);
    }
    return { outputs: graph.op(one.op, inputs, one.attrs ?? {}).outputs } as Program;
  });
  const outputs = forward.outputs.filter(
    ({ dtype }, i) =>
      isDifferentiableType(dtype) && dtype !== 'resource' && (one.outputs?.includes(i) ?? true),
  );
  const inputs = flatInputs.filter(({ spec }) => isDifferentiable(spec)).map(({ output }) => output);
  const xs = forward.xs ?? inputs;
  const init = forward.init ?? [];

  const session = Session.open({ graph });
  const start = () => {
    if (init.length > 0) session.runSync([], { feeds, targets: init });
  };
  const weights = (of: readonly Output[], name: string): Output[] => {
    start();
    const values = of.length > 0 ? session.runSync([...of], { feeds }) : [];
    return graph.asDefault(() =>
      of.map((y, i) => fed(randomLike((values[i] as Tensor).shape, y), `${name}_${i}`)),
    );
  };
  const randomLike = (shape: readonly number[], { dtype }: Output): Tensor =>
    inputValue({ shape, dtype, range: [-1, 1] }, random);

  const gradYs = weights(outputs, 'grad_y');
  const handle = (x: Differentiable): string => (x instanceof Variable ? x.handle : (x as Output)).name;
  const forwardGraph = graph.toGraphDefBytes();
  let results = gradients(outputs, xs, { gradYs });
  let measured = { ys: outputs, weights: gradYs };
  let secondGradYs: Output[] | undefined;
  let questionGraph = forwardGraph;
  if (one.order === 2) {
    const firsts = graph.asDefault(() =>
      results.filter((result) => result !== null).map((result) => identity(toDense(result))),
    );
    secondGradYs = weights(firsts, 'second_grad_y');
    questionGraph = withPlaceholders(forwardGraph, secondGradYs);
    results = gradients(firsts, xs, { gradYs: secondGradYs });
    measured = { ys: firsts, weights: secondGradYs };
  }
  // A gradient may be the placeholder of the incoming gradient itself, and a fed tensor cannot be fetched.
  const dense = graph.asDefault(() => results.map((result) => result && identity(toDense(result))));

  return {
    question: {
      graph: Buffer.from(questionGraph).toString('base64'),
      feeds: Object.fromEntries([...feeds].map(([output, value]) => [output.op.name, toOracle(value)])),
      init: init.map(({ name }) => name),
      ys: outputs.map(({ name }) => name),
      gradYs: gradYs.map(({ name }) => name),
      xs: xs.map(handle),
      ...(secondGradYs ? { secondGradYs: secondGradYs.map(({ name }) => name) } : {}),
    },
    async gradients() {
      start();
      const isEmpty = dense.every((output) => output === null);
      const values = isEmpty ? dense.map(() => null) : await session.run(dense, { feeds });
      return values.map((value, i) => ({
        value: (value as Tensor | null) ?? null,
        sparse: (results[i] as Gradient | null) instanceof IndexedSlices,
      }));
    },
    differences: () => differences(session, init, measured, inputs, feeds, one.step ?? STEP),
    async close() {
      await session.close();
      graph.dispose();
    },
  };
}

/** The forward graph with additional placeholders: serialized GraphDefs can be concatenated. */
function withPlaceholders(bytes: Uint8Array, outputs: readonly Output[]): Uint8Array {
  const extra = new Graph();
  try {
    for (const { op, dtype, shape } of outputs)
      extra.op('Placeholder', [], { dtype, shape }, { name: op.name });
    return Buffer.concat([bytes, extra.toGraphDefBytes()]);
  } finally {
    extra.dispose();
  }
}

const STEP = 1e-5;

/** d(sum of weight · y) / dx for every element of every x, by central differences. */
function differences(
  session: Session,
  init: readonly Operation[],
  { ys, weights }: { readonly ys: readonly Output[]; readonly weights: readonly Output[] },
  xs: readonly Output[],
  feeds: ReadonlyMap<Output, Tensor>,
  width: number,
): Float64Array[] {
  const numbers = (output: Output) => (feeds.get(output) as Tensor).data as Float64Array;
  const score = (x: Output, changed: Tensor): number => {
    const all = new Map(feeds).set(x, changed);
    if (init.length > 0) session.runSync([], { feeds: all, targets: init });
    const values = ys.length > 0 ? session.runSync([...ys], { feeds: all }) : [];
    let total = 0;
    ys.forEach((_, i) => {
      const [value, weight] = [(values[i] as Tensor).data as Float64Array, numbers(weights[i] as Output)];
      // For interleaved complex numbers the same sum is the real part of conj(weight) · y.
      value.forEach((element, at) => {
        total += element * (weight[at] as number);
      });
    });
    return total;
  };
  return xs.map((x) => {
    const { shape, dtype } = feeds.get(x) as Tensor;
    const at = numbers(x);
    return Float64Array.from(at, (element, i) => {
      const step = width * Math.max(1, Math.abs(element));
      const moved = (by: number) => Tensor.of(at.with(i, element + by), { dtype, shape });
      return (score(x, moved(step)) - score(x, moved(-step))) / (2 * step);
    });
  });
}

/** Why finite differences cannot be used; undefined if they can. */
export function noNumericReason(one: GradientCase): string | undefined {
  if (one.noNumeric || one.step) return one.noNumeric;
  const narrow = (one.inputs.flat() as InputSpec[])
    .filter(isDifferentiable)
    .map(dtypeOf)
    .find((dtype) => dtype !== 'float64' && dtype !== 'complex128');
  return narrow && `${narrow} is too coarse for differences`;
}
