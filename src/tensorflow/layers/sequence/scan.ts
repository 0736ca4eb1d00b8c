/** A recurrence over a sequence as one loop of the graph, whose body is one step. */
import type { Output } from '../../graph/operation.js';
import { expandDims, slice, transpose } from '../../ops/arrays.js';
import { whileLoop } from '../../ops/control-flow.js';
import * as raw from '../../ops/generated/index.js';
import { add, cast, less, where } from '../../ops/math.js';
import type { PartialShape } from '../../tensor/shape.js';
import { Tensor } from '../../tensor/tensor.js';
import type { RecurrentResult } from './options.js';

export interface Scan {
  /** What each step gets, [steps, batch, …]. */
  readonly inputs: Output;
  /** [batch, steps]; default: no step is masked. */
  readonly mask?: Output | undefined;
  /** The state before the first step; its first element is the output of a step. Each is [batch, size]. */
  readonly state: readonly Output[];
  readonly step: (input: Output, state: readonly Output[]) => readonly Output[];
  /** Whether the outputs of all steps are returned. */
  readonly keepsAll: boolean;
}

const int32 = (value: number | readonly number[]): Tensor<'int32'> =>
  Tensor.of(value as number, { dtype: 'int32' });

export function scan({ inputs, mask, state, step, keepsAll }: Scan): RecurrentResult {
  const shapes = state.map(({ shape }) => shape);
  const [output] = state as [Output, ...Output[]];
  const size = output.shape?.at(-1) as number;
  const elementShape = int32([-1, size]);
  const steps = slice(raw.shape(inputs), [0], [1]).reshape([]);
  const present = mask && expandDims(transpose(mask, [1, 0]), -1);
  // Where a step is masked, its output is that of the step before, and zeros before the first.
  const previous = present ? [raw.zerosLike(output)] : [];
  const list = keepsAll ? [raw.emptyTensorList(elementShape, int32(-1), { elementDtype: output.dtype })] : [];
  const count = state.length;
  const shaped = (x: Output, shape: PartialShape): Output => x.setShape(shape);
  const results = whileLoop(
    (at) => less(at as Output, steps),
    (at, ...vars) => {
      const before = vars.slice(0, count);
      const input = raw.gatherV2(inputs, at as Output<'int32'>, int32(0));
      let after = step(input, before);
      let own = after[0] as Output;
      if (present) {
        const isPresent = raw.gatherV2(present, at as Output<'int32'>, int32(0));
        own = where(isPresent, own, vars[count] as Output);
        after = after.map((value, i) => where(isPresent, value, before[i] as Output));
      }
      own = shaped(own, shapes[0] as PartialShape);
      return [
        add(at as Output, 1),
        ...after.map((value, i) => shaped(value, shapes[i] as PartialShape)),
        ...(present ? [own] : []),
        ...(keepsAll ? [raw.tensorListPushBack(vars.at(-1) as Output<'variant'>, own)] : []),
      ];
    },
    [cast(0, 'int32'), ...state, ...previous, ...list],
    { name: 'steps' },
  );
  const [, ...ended] = results;
  const made = ended.at(-1) as Output<'variant'>;
  const all = keepsAll ? raw.tensorListStack(made, elementShape, { elementDtype: output.dtype }) : undefined;
  const batch = output.shape?.[0] ?? null;
  return {
    last: (present ? ended[count] : ended[0]) as Output,
    sequence: all && transpose(all.setShape([inputs.shape?.[0] ?? null, batch, size]), [1, 0, 2]),
    state: ended.slice(0, count),
  };
}
