/** Op definitions, loaded from the library on demand. */
import { fromBinary } from '@bufbuild/protobuf';
import { isShoalError, ShoalError } from '../../base/errors/errors.js';
import { type OpDef, OpDefSchema } from '../../base/proto/generated/graph_pb.js';
import { fillBuffer } from '../native/buffer.js';
import type { Pointer } from '../native/library/c-api.js';
import { C } from '../native/library/library.js';

// Ops are registered in the library, not in a graph: one table per process.
const registered = new Map<string, OpDef>();
/** A graph without functions: its op definitions apply to every graph. */
let empty: Pointer | undefined;

/** The definition of an op, or of a function of this graph. */
export function opDef(graph: Pointer, type: string): OpDef {
  const def = registeredDef(type) ?? lookUp(graph, type);
  if (def) return def;
  throw new ShoalError('SHOAL_INVALID_ARGUMENT', `The TensorFlow library has no op '${type}'`, {
    op: type,
    hint: 'Ops are named as in TensorFlow: MatMul, ReadVariableOp. A custom op needs its library loaded first.',
  });
}

/** Whether an op has no state and calls no function. */
export function isPure({ graph, type }: { graph: { pointer: Pointer }; type: string }): boolean {
  // The type of an op may be the name of a function.
  if (!isRegistered(type)) return false;
  const { isStateful, attr } = opDef(graph.pointer, type);
  return !isStateful && !attr.some((one) => one.type === 'func' || one.type === 'list(func)');
}

/** Whether the library has this op; otherwise it may be a function of a graph. */
export const isRegistered = (type: string): boolean => registeredDef(type) !== undefined;

function registeredDef(type: string): OpDef | undefined {
  const known = registered.get(type);
  if (known) return known;
  empty ??= C().TF_NewGraph();
  const def = lookUp(empty, type);
  if (def) registered.set(type, def);
  return def;
}

function lookUp(graph: Pointer, type: string): OpDef | undefined {
  try {
    return fromBinary(
      OpDefSchema,
      fillBuffer((buffer, status) => C().TF_GraphGetOpDef(graph, type, buffer, status)),
    );
  } catch (error) {
    if (isShoalError(error, 'SHOAL_TF_NOT_FOUND')) return undefined;
    throw error;
  }
}
