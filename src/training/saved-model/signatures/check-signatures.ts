/** Checks signatures against their graph, before anything is written. */
import { invalid, isShoalError } from '../../../base/errors/errors.js';
import type { SignatureDef, TensorInfo } from '../../../base/proto/generated/model_pb.js';
import { shapeFromProto } from '../../../tensorflow/graph/attributes.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { dtypeFromNumber } from '../../../tensorflow/tensor/dtype.js';
import { formatShape, type PartialShape } from '../../../tensorflow/tensor/shape.js';
import { RESERVED_SIGNATURES } from './constants.js';
import { checkConventions, namesOf } from './signature-def.js';

export type SignatureDefMap = Readonly<Record<string, SignatureDef>>;

export function checkSignatures(graph: Graph, signatures: SignatureDefMap): void {
  for (const [name, signature] of Object.entries(signatures)) {
    if (RESERVED_SIGNATURES.has(name) || name === '')
      throw invalid(`A signature cannot be named '${name}': the name is reserved`);
    checkConventions(`'${name}'`, signature);
    for (const [kind, infos] of [
      ['input', signature.inputs],
      ['output', signature.outputs],
    ] as const) {
      for (const [key, info] of Object.entries(infos))
        checkInfo(graph, info, `The ${kind} '${key}' of signature '${name}'`);
    }
  }
}

function checkInfo(graph: Graph, info: TensorInfo, what: string): void {
  const names = namesOf(info);
  if (names.length === 0) throw invalid(`${what} names no tensor`);
  const outputs = names.map((name) => outputOf(graph, name, what));
  if (info.encoding.case === 'compositeTensor') {
    for (const component of info.encoding.value.components) checkInfo(graph, component, what);
    return;
  }
  const dense = info.encoding.case === 'name';
  const values = (dense ? outputs[0] : outputs[1]) as Output;
  const dtype = dtypeFromNumber(info.dtype);
  if (values.dtype !== dtype)
    throw invalid(`${what} is declared ${dtype}, but the tensor ${values.name} is ${values.dtype}`);
  if (!dense || !info.tensorShape) return;
  const shape = shapeFromProto(info.tensorShape);
  if (!mayBeSame(shape, values.shape)) {
    throw invalid(
      `${what} is declared ${formatShape(shape)}, but the tensor ${values.name} is ${formatShape(values.shape)}`,
    );
  }
}

function outputOf(graph: Graph, name: string, what: string): Output {
  try {
    return graph.output(name);
  } catch (error) {
    if (!isShoalError(error, 'SHOAL_INVALID_ARGUMENT')) throw error;
    throw invalid(`${what} is the tensor ${name}, which the graph does not have`, { cause: error });
  }
}

/** Whether one value can have both static shapes. */
function mayBeSame(a: PartialShape, b: PartialShape): boolean {
  if (a === null || b === null) return true;
  return a.length === b.length && a.every((size, i) => size === null || b[i] === null || size === b[i]);
}
