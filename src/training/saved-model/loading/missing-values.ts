/**
 * Variables that a model's signatures read but its restore op does not restore. Keras 3 models saved with
 * `tf.saved_model.save` have them: their restore op fills copies of the variables. TensorFlow 2's object graph in the
 * model locates the values.
 */

import { join } from 'node:path';
import { fromBinary } from '@bufbuild/protobuf';
import type { NodeDef } from '../../../base/proto/generated/graph_pb.js';
import { type MetaGraphDef, TrackableObjectGraphSchema } from '../../../base/proto/generated/model_pb.js';
import { readTensor } from '../../../distributed/checkpoint/reading/read-tensor.js';
import { DirectoryReader } from '../../../tensorflow/formats/range-reader.js';
import { fromProto } from '../../../tensorflow/graph/attributes.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import type { Session } from '../../../tensorflow/session/session.js';
import { type DType, dtypeFromNumber } from '../../../tensorflow/tensor/dtype.js';
import { nodesOf, reach, reachOfSignature } from '../graph/prune-graph.js';
import { RESERVED_SIGNATURES, VARIABLES_DIRECTORY } from '../signatures/constants.js';
import { namesOf } from '../signatures/signature-def.js';
import { openVariables } from './check-files.js';

export const OBJECT_GRAPH_KEY = '_CHECKPOINTABLE_OBJECT_GRAPH';

export async function restoreMissingValues(
  session: Session,
  directory: string,
  meta: MetaGraphDef,
): Promise<void> {
  const unassigned = unassignedHandles(meta);
  if (unassigned.length === 0) return;
  await using files = new DirectoryReader(join(directory, VARIABLES_DIRECTORY));
  const bundle = await openVariables(files, directory, meta);
  if (!bundle?.index.tensors.has(OBJECT_GRAPH_KEY)) return;
  const [bytes] = await bundle.readStrings(OBJECT_GRAPH_KEY);
  const { nodes } = fromBinary(TrackableObjectGraphSchema, bytes as Uint8Array);
  const keys = new Map(
    nodes.flatMap(({ attributes }) =>
      attributes.map(({ fullName, checkpointKey }) => [fullName, checkpointKey]),
    ),
  );
  for (const node of unassigned) {
    const key = keys.get(sharedName(node));
    const saved = key === undefined ? undefined : bundle.index.tensors.get(key);
    if (key === undefined || !saved) continue;
    const dtype: DType = dtypeFromNumber(saved.dtype);
    const value = await readTensor(bundle, { key, dtype, shape: saved.shape });
    const { graph } = session;
    const { placeholder, assign } = graph.asDefault(() => {
      const placeholder = raw.placeholder({ dtype, shape: saved.shape, name: 'shoal_restore/value' });
      const assign = raw.assignVariableOp(graph.output(node.name), placeholder, {
        name: 'shoal_restore/assign',
      });
      return { placeholder, assign };
    });
    await session.run(assign, { feeds: [[placeholder, value]] });
    value.dispose();
  }
}

/** Handles that signatures read and neither the restore op nor the init op assigns. */
function unassignedHandles(meta: MetaGraphDef): NodeDef[] {
  const { graphDef, saverDef, objectGraphDef, signatureDef } = meta;
  if (!graphDef || !saverDef || !objectGraphDef) return [];
  const nodes = nodesOf(graphDef);
  const init = Object.entries(signatureDef)
    .filter(([name]) => RESERVED_SIGNATURES.has(name))
    .flatMap(([, { outputs }]) => Object.values(outputs).flatMap(namesOf))
    .map((name) => name.replace(/:\d+$/, ''));
  const given = reach(nodes, [saverDef.restoreOpName, ...init]);
  const read = new Set(
    Object.entries(signatureDef)
      .filter(([name]) => !RESERVED_SIGNATURES.has(name))
      .flatMap(([, signature]) => [...reachOfSignature(nodes, signature)]),
  );
  return [...read].flatMap((name) => {
    const node = nodes.get(name);
    return node?.op === 'VarHandleOp' && !given.has(name) ? [node] : [];
  });
}

function sharedName(node: NodeDef): string {
  const shared = node.attr.shared_name && fromProto(node.attr.shared_name);
  return typeof shared === 'string' && shared !== '' ? shared : node.name;
}
