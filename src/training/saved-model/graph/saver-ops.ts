/**
 * The ops by which TensorFlow restores an exported model's variables (and can save them again), and the SaverDef that
 * names them. Parts of partitioned variables are slices of one tensor.
 */
import { create } from '@bufbuild/protobuf';
import {
  type SaverDef,
  SaverDef_CheckpointFormatVersion,
  SaverDefSchema,
} from '../../../base/proto/generated/model_pb.js';
import {
  fullShapeOf,
  savedVariable,
  sliceOf,
} from '../../../distributed/checkpoint/format/saved-variable.js';
import { formatShapeAndSlice } from '../../../tensorflow/formats/tensor-bundle/slice.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { constantIn } from '../../../tensorflow/ops/build.js';
import { group } from '../../../tensorflow/ops/creation.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { NamedVariable } from '../variables/trained-variables.js';

/** Adds the ops to a graph that has the variables' nodes under the names that they have in their own graph. */
export function addSaverOps(graph: Graph, variables: readonly NamedVariable[]): SaverDef {
  return graph.asDefault(() =>
    graph.nameScope('save', () => {
      const strings = (values: string[], name: string) =>
        constantIn(graph, Tensor.of(values, { dtype: 'string' }), 'string', { name }) as Output<'string'>;
      const input = constantIn(graph, 'model', 'string', { name: 'filename/input' });
      const filename = raw.placeholderWithDefault(input, { shape: [], name: 'filename' });
      const path = raw.placeholderWithDefault(filename, { shape: [], name: 'Const' }) as Output<'string'>;
      const keys = variables.map(({ key }) => key);
      const slices = variables.map(({ variable }) => sliceSpec(variable));
      const handles = variables.map(({ variable }) => graph.output(variable.handle.name));
      const values = variables.map(({ variable }, i) =>
        graph.colocateWith(handles[i] as Output, () =>
          raw.readVariableOp(handles[i] as Output<'resource'>, { dtype: variable.dtype }),
        ),
      );
      const save = raw.saveV2(
        path,
        strings(keys, 'SaveV2/tensor_names'),
        strings(slices, 'SaveV2/shape_and_slices'),
        values,
        { name: 'SaveV2' },
      );
      const saved = raw.identity(path, { name: 'control_dependency', controlInputs: [save] });
      const restored = raw.restoreV2(
        path,
        strings(keys, 'RestoreV2/tensor_names'),
        strings(slices, 'RestoreV2/shape_and_slices'),
        { dtypes: variables.map(({ variable }) => variable.dtype), name: 'RestoreV2' },
      );
      const assigned = handles.map((handle, i) =>
        graph.colocateWith(handle, () =>
          raw.assignVariableOp(handle as Output<'resource'>, restored[i] as Output),
        ),
      );
      return create(SaverDefSchema, {
        filenameTensorName: path.name,
        saveTensorName: saved.name,
        restoreOpName: group(assigned, { name: 'restore_all' }).name,
        maxToKeep: 5,
        keepCheckpointEveryNHours: 10_000,
        version: SaverDef_CheckpointFormatVersion.V2,
      });
    }),
  );
}

/** As RestoreV2 takes it: empty for a variable that is not a part. */
function sliceSpec(variable: NamedVariable['variable']): string {
  const saved = savedVariable(variable);
  const slice = sliceOf(saved);
  return slice ? formatShapeAndSlice(fullShapeOf(saved), slice) : '';
}
