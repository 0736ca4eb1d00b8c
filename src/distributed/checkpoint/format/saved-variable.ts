/**
 * A variable in a checkpoint: the key it is saved under, and its resource in the owning process. The chief sends it to
 * that process as JSON.
 */
import * as v from 'valibot';
import type { TensorSlice } from '../../../tensorflow/formats/tensor-bundle/slice.js';
import { DTYPES, type DType } from '../../../tensorflow/tensor/dtype.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';

const Size = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const Shape = v.pipe(v.array(Size), v.maxLength(254));
const Name = v.pipe(v.string(), v.minLength(1), v.maxLength(4096));

export const SavedVariableSchema = v.object({
  /** The name in the checkpoint, shared by all parts of a partitioned variable. */
  key: Name,
  /** The name of the resource, and its container. */
  resource: Name,
  container: v.pipe(v.string(), v.maxLength(4096)),
  dtype: v.custom<DType>((value) => typeof value === 'string' && value in DTYPES, 'expected a dtype'),
  /** The shape of this part, if it is one. */
  shape: Shape,
  part: v.optional(v.object({ fullShape: Shape, offset: Shape })),
});

export type SavedVariable = v.InferOutput<typeof SavedVariableSchema>;

/** @param key default: the name of the variable. */
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

/** The slice as TensorFlow writes it: `all` for dimensions that the part covers. */
export function sliceOf({ part, shape }: SavedVariable): TensorSlice | undefined {
  return part?.fullShape.map((size, i) =>
    part.offset[i] === 0 && shape[i] === size ? 'all' : { start: part.offset[i]!, length: shape[i]! },
  );
}
