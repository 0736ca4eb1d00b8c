/**
 * A variable as a checkpoint knows it: the key it is saved under, and the resource that holds it in the process that
 * owns it. It travels from the chief to that process as JSON.
 */
import * as v from 'valibot';
import type { TensorSlice } from '../formats/tensor-bundle/slice.js';
import { DTYPES, type DType } from '../tensor/dtype.js';
import type { Variable } from '../variables/variable.js';

const Size = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const Shape = v.pipe(v.array(Size), v.maxLength(254));
const Name = v.pipe(v.string(), v.minLength(1), v.maxLength(4096));

export const SavedVariableSchema = v.object({
  /** The name in the checkpoint; the parts of a partitioned variable share one. */
  key: Name,
  /** The name of the resource, and the container it is in. */
  resource: Name,
  container: v.pipe(v.string(), v.maxLength(4096)),
  dtype: v.custom<DType>((value) => typeof value === 'string' && value in DTYPES, 'expected a dtype'),
  /** Of this part, where it is one. */
  shape: Shape,
  part: v.optional(v.object({ fullShape: Shape, offset: Shape })),
});

export type SavedVariable = v.InferOutput<typeof SavedVariableSchema>;

/** What is saved of a variable, under its own name or another. */
export function savedVariable(variable: Variable, key?: string): SavedVariable {
  const { sliceInfo, handle } = variable;
  const shared = handle.op.attr('shared_name');
  const container = handle.op.attr('container');
  return {
    key: key ?? sliceInfo?.fullName ?? variable.name,
    resource: typeof shared === 'string' && shared !== '' ? shared : variable.name,
    container: typeof container === 'string' ? container : '',
    dtype: variable.dtype,
    shape: [...variable.fullShape],
    ...(sliceInfo ? { part: { fullShape: [...sliceInfo.fullShape], offset: [...sliceInfo.offset] } } : {}),
  };
}

export function fullShapeOf({ part, shape }: SavedVariable): readonly number[] {
  return part?.fullShape ?? shape;
}

/** The slice as TensorFlow writes it: `all` of a dimension where the part has all of it. */
export function sliceOf({ part, shape }: SavedVariable): TensorSlice | undefined {
  return part?.fullShape.map((size, i) =>
    part.offset[i] === 0 && shape[i] === size ? 'all' : { start: part.offset[i]!, length: shape[i]! },
  );
}
