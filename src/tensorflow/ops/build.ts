/**
 * Converts user arguments to graph ops: literals become constants whose dtype follows from the op's definition and
 * the other inputs.
 */
import { invalid, isShoalError, ShoalError } from '../../base/errors/errors.js';
import type { OpDef, OpDef_ArgDef } from '../../base/proto/generated/graph_pb.js';
import type { Attrs } from '../graph/attributes.js';
import { currentGraph, type Graph, type OpInput, type OpOptions } from '../graph/graph.js';
import { isOutputLike, type Operation, type Output, type OutputLike } from '../graph/operation.js';
import { activeScope } from '../graph/scope.js';
import { type DType, dtypeFromNumber, isInteger } from '../tensor/dtype.js';
import { dtypeOfValue, type NestedValue } from '../tensor/literal.js';
import { Tensor, type TensorLike } from '../tensor/tensor.js';

/**
 * An input of an op: an output of the graph, a value that converts to one, or a literal. The type parameter is the
 * dtype, from which result types follow; outputs of statically unknown dtype are accepted, and TensorFlow checks them.
 */
export type Operand<D extends DType = DType> = OutputLike<D> | OutputLike | TensorLike;

export type BuildOptions = OpOptions;

export { isOutputLike };

/** Creates an op of any type; `inputs` in the order of its definition. */
export function build(
  type: string,
  inputs: readonly (Operand | readonly Operand[])[],
  attrs: Attrs = {},
  options: BuildOptions = {},
): Operation {
  const graph = graphFor(inputs);
  const def = graph.opDef(type);
  const resolved: OpInput[] = inputs.map((input, i) => {
    const arg = def.inputArg[i];
    if (!arg) throw invalid(`Op ${type} takes ${def.inputArg.length} inputs; got ${inputs.length}`);
    if (arg.numberAttr === '' && arg.typeListAttr === '') {
      return toOutput(graph, input as Operand, () => literalType(def, arg, input as Operand, inputs, attrs));
    }
    if (!Array.isArray(input)) throw invalid(`Input '${arg.name}' of ${type} must be a list of tensors`);
    return input.map((one: Operand) => toOutput(graph, one, () => literalType(def, arg, one, inputs, attrs)));
  });
  const { name, device, controlInputs } = options;
  try {
    return graph.op(type, resolved, attrs, { name, device, controlInputs });
  } catch (error) {
    throw differentTypes(def, resolved, error) ?? error;
  }
}

/** The error that says which inputs have different dtypes, if that is why an op was refused. */
function differentTypes(def: OpDef, inputs: readonly OpInput[], cause: unknown): ShoalError | undefined {
  if (!isShoalError(cause, 'SHOAL_TF_INVALID_ARGUMENT')) return undefined;
  for (const { typeAttr } of def.inputArg) {
    if (typeAttr === '') continue;
    const same = inputs.filter((_, i) => def.inputArg[i]?.typeAttr === typeAttr).flat() as Output[];
    const [first, ...others] = same;
    const other = others.find(({ dtype }) => dtype !== first?.dtype);
    if (!first || !other) continue;
    const integer = [first, other].find((input) => isInteger(input.dtype) && variableOf(input) !== undefined);
    return new ShoalError(
      cause.code,
      `${def.name} needs inputs of one dtype: ${described(first)}, ${described(other)}`,
      { op: cause.op, cause, hint: integer ? INTEGER_VARIABLE : 'Convert one of them with tf.cast.' },
    );
  }
  return undefined;
}

/** For a variable that a program means to train. */
export const INTEGER_VARIABLE =
  "A whole number, as in newVariable(0), makes an integer variable; pass dtype: 'float32' for a weight.";

const described = (output: Output): string => {
  const variable = variableOf(output);
  return variable === undefined
    ? `'${output.name}' is ${output.dtype}`
    : `variable '${variable}' is ${output.dtype}`;
};

/** The name of the variable whose value an output is. */
const variableOf = ({ op }: Output): string | undefined =>
  op.type === 'ReadVariableOp' ? op.inputs[0]?.op.name : undefined;

/** A variable: parts of its value can be read without the rest. */
export interface PartReader<D extends DType = DType> extends OutputLike<D> {
  /** The rows at these indices of the first axis. */
  readRows(indices: Output, options?: OpOptions): Output<D>;
  /** The elements or slices at these positions, as `gatherNd`. */
  readParts(indices: Output, options?: OpOptions): Output<D>;
}

export const isPartReader = <D extends DType>(value: unknown): value is PartReader<D> =>
  isOutputLike(value) && typeof (value as Partial<PartReader>).readParts === 'function';

/** The graph that an op with these inputs belongs to. */
function graphFor(inputs: readonly unknown[]): Graph {
  const active = activeScope();
  if (active) return active.graph;
  for (const input of inputs) {
    const first = Array.isArray(input) ? input.find(isOutputLike) : input;
    if (isOutputLike(first)) return first.toOutput().graph;
  }
  return currentGraph();
}

function toOutput(graph: Graph, operand: Operand, dtype: () => DType): Output {
  if (isOutputLike(operand)) return operand.toOutput();
  return constantIn(graph, operand, operand instanceof Tensor ? operand.dtype : dtype());
}

export function constantIn(graph: Graph, value: TensorLike, dtype?: DType, options: OpOptions = {}): Output {
  const tensor = value instanceof Tensor ? value : Tensor.of(value, dtype ? { dtype } : {});
  return graph
    .op('Const', [], { value: tensor, dtype: tensor.dtype }, { ...options, name: options.name ?? 'Const' })
    .output();
}

/** Converts an operand to an output of the current graph. */
export function asOutput<D extends DType = DType>(operand: Operand<D>, dtype?: D): Output<D> {
  if (isOutputLike(operand)) {
    const output = operand.toOutput() as Output<D>;
    if (dtype !== undefined && output.dtype !== dtype)
      throw invalid(`Expected dtype ${dtype}; got ${output}`);
    return output;
  }
  return constantIn(currentGraph(), operand, dtype) as Output<D>;
}

/** Literals as int32 indices. */
export function integers(value: Operand): Operand {
  return isOutputLike(value) || value instanceof Tensor || ArrayBuffer.isView(value)
    ? value
    : Tensor.of(value, { dtype: 'int32' });
}

/** The dtype of a literal for this input. */
function literalType(
  def: OpDef,
  arg: OpDef_ArgDef,
  literal: Operand,
  inputs: readonly (Operand | readonly Operand[])[],
  attrs: Attrs,
): DType {
  if (arg.type !== 0) return dtypeFromNumber(arg.type);
  const natural = dtypeOfValue(literal as NestedValue);
  if (arg.typeAttr === '') return natural;
  const asked = attrs[arg.typeAttr];
  if (typeof asked === 'string') return asked as DType;
  const sibling = siblingType(def, arg.typeAttr, inputs);
  if (sibling) return sibling;
  const attr = def.attr.find(({ name }) => name === arg.typeAttr);
  const fallback = attr?.defaultValue?.value;
  if (natural === 'float32' && fallback?.case === 'type') return dtypeFromNumber(fallback.value);
  const allowed = attr?.allowedValues?.value;
  if (allowed?.case !== 'list' || allowed.value.type.length === 0) return natural;
  const types = allowed.value.type.map(dtypeFromNumber);
  if (types.includes(natural)) return natural;
  return types.includes('int32') ? 'int32' : (types[0] as DType);
}

/** The dtype of the first output or tensor among the inputs that share the type attribute. */
function siblingType(def: OpDef, typeAttr: string, inputs: readonly unknown[]): DType | undefined {
  for (const [i, arg] of def.inputArg.entries()) {
    if (arg.typeAttr !== typeAttr) continue;
    const input = inputs[i];
    const candidates = Array.isArray(input) ? input : [input];
    for (const candidate of candidates) {
      if (isOutputLike(candidate)) return candidate.toOutput().dtype;
      if (candidate instanceof Tensor) return candidate.dtype;
    }
  }
  return undefined;
}

/** The outputs of an op by name. */
export function named(op: Operation, names: readonly string[]): Record<string, Output> {
  return Object.fromEntries(names.map((name, i) => [name, op.output(i)]));
}

/** The same where some outputs are lists: [name, TensorFlow's name, whether it is a list]. */
export function lists(
  op: Operation,
  names: readonly (readonly [string, string, boolean])[],
): Record<string, Output | Output[]> {
  let at = 0;
  return Object.fromEntries(
    names.map(([name, tfName, list]) => {
      const length = list ? op.outputListLength(tfName) : 1;
      const outputs = op.outputs.slice(at, at + length);
      at += length;
      return [name, list ? outputs : (outputs[0] as Output)];
    }),
  );
}
