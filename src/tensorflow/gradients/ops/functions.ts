/** The functions that an op calls, their gradients, and zeros for branches without one. */
import { ShoalError } from '../../../base/errors/errors.js';
import type { GraphFunction } from '../../graph/function.js';
import type { Operation, Output } from '../../graph/operation.js';
import { functionsOfOp } from '../../ops/control-flow.js';
import * as raw from '../../ops/generated/index.js';
import { inlineFunction } from '../../ops/inline.js';
import type { DType } from '../../tensor/dtype.js';
import { Tensor } from '../../tensor/tensor.js';
import type { GradientContext } from '../gradient-function.js';
import { type Gradient, IndexedSlices } from '../indexed-slices.js';
import { isDifferentiableType } from '../paths.js';
import { int32, shapeOf } from '../pieces.js';

/** Stateful ops that return the same result when they run again. */
const REPEATABLE: ReadonlySet<string> = new Set([
  'Assert',
  'If',
  'Print',
  'PrintV2',
  'ReadVariableOp',
  'ResourceGather',
  'ResourceGatherNd',
  'StatefulPartitionedCall',
  'VarHandleOp',
  'VarIsInitializedOp',
  'VariableShape',
  'While',
]);

/** The functions of an op. Throws if they cannot run again with the same result. */
export function repeatableFunctions(op: Operation): readonly GraphFunction[] {
  const functions = functionsOfOp(op);
  if (!functions) {
    throw new ShoalError('SHOAL_NO_GRADIENT', `The functions called by ${op} are unknown`, {
      op: op.name,
      hint: 'Only cond, while and function calls built in this process can be differentiated, not imported ones.',
    });
  }
  for (const fn of functions) checkRepeatable(op, fn);
  return functions;
}

function checkRepeatable(op: Operation, fn: GraphFunction): void {
  for (const inner of fn.body.operations()) {
    if (fn.body.opDef(inner.type).isStateful && !REPEATABLE.has(inner.type)) {
      throw new ShoalError(
        'SHOAL_NO_GRADIENT',
        `No gradient through ${op}: the gradient runs its body again, and ${inner} would give a different result`,
        {
          op: op.name,
          hint: 'Move random ops and state changes out of the body, or use stateless random ops.',
        },
      );
    }
    for (const nested of functionsOfOp(inner) ?? []) checkRepeatable(op, nested);
  }
}

/** The results of a body and the incoming gradient of each. */
function flowing(outputs: readonly Output[], grads: readonly (Output | undefined)[]) {
  const places = outputs.flatMap((output, i) => (grads[i] && isDifferentiableType(output.dtype) ? [i] : []));
  return { ys: places.map((i) => outputs[i] as Output), gradYs: places.map((i) => grads[i] as Output) };
}

/** Builds the gradients of a function's arguments in the current graph. */
export function functionGradients(
  fn: GraphFunction,
  args: readonly Output[],
  grads: readonly (Output | undefined)[],
  wanted: readonly boolean[],
  context: GradientContext,
): (Gradient | null)[] {
  // One gradient per argument, even if one tensor is passed twice.
  const own = args.map((arg, i) => (args.indexOf(arg) === i ? arg : raw.identity(arg)));
  const { ys, gradYs } = flowing(inlineFunction(fn, own), grads);
  const xs = own.filter((_, i) => wanted[i]);
  const found = context.gradients(ys, xs, { gradYs });
  let at = 0;
  return own.map((_, i) => (wanted[i] ? (found[at++] ?? null) : null));
}

/** The common form of the gradients of one tensor from several bodies: slices only if none is dense. */
export type Form = { readonly kind: 'dense' | 'slices'; readonly dtype: DType } | { readonly kind: 'none' };

export function formOf(gradients: readonly (Gradient | null)[]): Form {
  const found = gradients.filter((gradient) => gradient !== null);
  const [one] = found;
  if (!one) return { kind: 'none' };
  const isSparse = found.every((gradient) => gradient instanceof IndexedSlices);
  return { kind: isSparse ? 'slices' : 'dense', dtype: one.dtype };
}

const isHandle = (x: Output): boolean => x.dtype === 'resource';

/** The shape of a tensor, or of a variable's value if given its handle. */
export const valueShape = (x: Output, dtype: 'int32' | 'int64'): Output =>
  isHandle(x) ? raw.variableShape(x, { outType: dtype }) : shapeOf(x, dtype);

/** Zeros of the shape of a tensor or of a variable's value. */
export const zerosFor = (x: Output, dtype: DType): Output =>
  isHandle(x) ? raw.fill(valueShape(x, 'int32'), Tensor.of(0, { dtype })) : raw.zerosLike(x);

/** The shape of a row of a table. */
export const rowShape = (x: Output): Output => raw.slice(valueShape(x, 'int32'), int32([1]), int32([-1]));

/** Slices without rows. */
export function noSlices(x: Output, dtype: DType): readonly [values: Output, indices: Output] {
  const shape = raw.concatV2([int32([0]), rowShape(x)], int32(0));
  return [raw.fill(shape, Tensor.of(0, { dtype })), raw.fill(int32([0]), Tensor.of(0n, { dtype: 'int64' }))];
}

export const wideIndices = ({ indices }: IndexedSlices): Output =>
  indices.dtype === 'int64' ? indices : raw.cast(indices, { dstT: 'int64' });
