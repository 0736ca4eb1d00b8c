/**
 * Slots: what an optimizer remembers of each variable. A slot is a variable beside its own, on the same
 * device, named as TensorFlow 1 names it (`w/Adam`, `w/Adam_1`), so that checkpoints pass both ways. The
 * slot of a part is a part too: checkpoints keep the slots of all parts as one tensor and can cut it anew.
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

/** Makes a slot of a variable, colocated with it, or of a tensor. */
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
 * A tensor of the variable's shape, filled with one value where and when it is needed: as a constant it
 * would make the graph as large as the table.
 */
export function filledLike(variable: Variable, value: number): Output {
  const { shape: own, dtype } = variable;
  if (isFullyDefined(own)) return filled(own, value, dtype);
  return fill(shape(variable.initialValue), Tensor.of(value, { dtype }));
}

/** The name, numbered when a variable has it already. */
export function freeName(graph: Graph, name: string): string {
  for (let i = 0; ; i++) {
    const candidate = i === 0 ? name : `${name}_${i}`;
    if (!graph.hasOperation(candidate)) return candidate;
  }
}

/**
 * Where the slot of a part lies in the whole. Within a variable scope TensorFlow 1 cuts a wrong piece out
 * of the part's name (`p/art_0/Adam`), which would save each part as a whole of its own; here the scope
 * stands before the name of the whole.
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
