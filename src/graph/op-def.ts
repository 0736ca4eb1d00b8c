/** The definitions of ops, asked of the library one at a time as they are needed. */
import { fromBinary } from '@bufbuild/protobuf';
import { isShoalError, ShoalError } from '../errors/errors.js';
import { fillBuffer } from '../native/buffer.js';
import type { Pointer } from '../native/c-api.js';
import { C } from '../native/library.js';
import { type OpDef, OpDefSchema } from '../proto/generated/graph_pb.js';

// Registered ops are the library's, not a graph's: one table for the process.
const registered = new Map<string, OpDef>();

/** The definition of an op, or of a function of this graph that is called like one. */
export function opDef(graph: Pointer, type: string, isFunction: (name: string) => boolean): OpDef {
  const known = registered.get(type);
  if (known) return known;
  let def: OpDef;
  try {
    def = fromBinary(
      OpDefSchema,
      fillBuffer((buffer, status) => C().TF_GraphGetOpDef(graph, type, buffer, status)),
    );
  } catch (error) {
    if (!isShoalError(error, 'SHOAL_TF_NOT_FOUND')) throw error;
    throw new ShoalError('SHOAL_INVALID_ARGUMENT', `The TensorFlow library has no op '${type}'`, {
      cause: error,
      hint: 'Ops are named as in TensorFlow: MatMul, ReadVariableOp. A custom op needs its library loaded first.',
    });
  }
  if (!isFunction(type)) registered.set(type, def);
  return def;
}
