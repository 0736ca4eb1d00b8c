/** `shoal saved-model show`: prints the signatures and files of a SavedModel. */

import { bytes, count, table } from '../../../../base/text/format.js';
import { formatShape } from '../../../../tensorflow/tensor/shape.js';
import {
  describeSavedModel,
  type GraphDescription,
} from '../../../../training/saved-model/loading/describe.js';
import type { TensorSpec } from '../../../../training/saved-model/signatures/signature-values.js';
import type { ShoalContext } from '../../context.js';
import type { ShowFlags } from './command.js';

export async function runShow(this: ShoalContext, flags: ShowFlags, directory: string): Promise<void> {
  const model = await describeSavedModel(directory);
  const { variables, files } = model;
  const text = flags.json
    ? JSON.stringify(model, null, 2)
    : [
        `${model.directory} · ${count(variables.count, 'variable')} (${bytes(variables.bytes)}, ${count(variables.shards, 'shard')})`,
        ...model.graphs.flatMap(showGraph),
        '',
        table(
          ['file', 'size'],
          files.map((one) => [one.file, bytes(one.bytes)]),
        ),
      ].join('\n');
  this.process.stdout.write(`${text}\n`);
}

function showGraph({
  tags,
  tensorflowVersion,
  nodes,
  functions,
  signatures,
  assets,
}: GraphDescription): string[] {
  const rows = signatures.flatMap(({ name, methodName, inputs, outputs }) => {
    const lines = [...showTensors('input', inputs), ...showTensors('output', outputs)];
    return lines.map((line, i) => [...(i === 0 ? [name, methodName] : ['', '']), ...line]);
  });
  return [
    '',
    `tags ${tags.join(', ')} · TensorFlow ${tensorflowVersion} · ${count(nodes, 'node')}, ${count(functions, 'function')}` +
      (assets.length > 0 ? ` · assets ${assets.join(', ')}` : ''),
    table(['signature', 'method', '', 'name', 'dtype', 'shape', 'tensor'], rows),
  ];
}

function showTensors(kind: string, specs: Readonly<Record<string, TensorSpec>>): string[][] {
  return Object.entries(specs).map(([name, spec]) => [
    kind,
    name,
    spec.kind === 'dense' ? spec.dtype : `${spec.dtype} (${spec.kind})`,
    formatShape(spec.shape),
    spec.tensors.join(' '),
  ]);
}
