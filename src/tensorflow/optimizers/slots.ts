/**
 * Slots: the per-variable state of an optimizer. A slot is a variable on the device of its own variable, with
 * TensorFlow 1's name (`w/Adam`, `w/Adam_1`), so that checkpoints are compatible both ways. The slot of a partition is
 * a partition too: checkpoints store the slots of all partitions as one tensor and can repartition it.
 */
import type { Graph } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { shape } from '../ops/arrays.js';
import type { Operand } from '../ops/build.js';
import { fill } from '../ops/creation.js';
import { isFullyDefined } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { filled } from '../variables/initializers.js';
import { type SliceInfo, Variable } from '../variables/variable.js';
import { currentVariableScope } from '../variables/variable-scope.js';

/** Creates a slot for a variable, colocated with it, or for a tensor. */
export function createSlot(
  primary: Variable | Output,
  suffix: string,
  initialValue: () => Operand,
): Variable {
  const { graph } = primary;
  const owner = primary instanceof Variable ? primary.name : primary.op.name;
  return graph.asDefault(() => {
    const { prefix } = currentVariableScope(graph);
    const name = freeName(graph, `${prefix}${owner}/${suffix}`);
    const create = () =>
      Variable.create({ name, initialValue, trainable: false, ...sliceOf(primary, prefix, owner, name) });
    return primary instanceof Variable ? graph.colocateWith(primary.handle, create) : create();
  });
}

/**
 * A tensor of the variable's shape, filled with one value at run time: a constant would make the graph as large
 * as the table.
 */
export function filledLike(variable: Variable, value: number): Output {
  const { shape: own, dtype } = variable;
  if (isFullyDefined(own)) return filled(own, value, dtype);
  return fill(shape(variable.initialValue), Tensor.of(value, { dtype }));
}

/** The name, numbered if a variable already has it. */
export function freeName(graph: Graph, name: string): string {
  for (let i = 0; ; i++) {
    const candidate = i === 0 ? name : `${name}_${i}`;
    if (!graph.hasOperation(candidate)) return candidate;
  }
}

/**
 * The slice of a partition's slot within the complete slot. Within a variable scope TensorFlow 1 derives a wrong name
 * from the partition's (`p/art_0/Adam`), which would save each partition as a separate tensor; here the scope
 * precedes the name of the complete slot.
 */
function sliceOf(
  primary: Variable | Output,
  prefix: string,
  owner: string,
  name: string,
): { readonly sliceInfo?: SliceInfo } {
  if (!(primary instanceof Variable) || !primary.sliceInfo) return {};
  const suffix = name.slice(prefix.length + owner.length);
  return { sliceInfo: { ...primary.sliceInfo, fullName: prefix + primary.sliceInfo.fullName + suffix } };
}
