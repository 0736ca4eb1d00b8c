/** The table of a model's layers: their output shapes and numbers of parameters. */

import { grouped, table } from '../../base/text/format.js';
import { Graph } from '../../tensorflow/graph/graph.js';
import { placeholder } from '../../tensorflow/ops/creation.js';
import type { DType } from '../../tensorflow/tensor/dtype.js';
import { formatShape, type PartialShape, type Shape, sizeOf } from '../../tensorflow/tensor/shape.js';
import { globalVariables } from '../../tensorflow/variables/variable-scope.js';
import type { Network } from './network.js';

/** The types of a model's inputs, by name. */
export type InputTypes = Readonly<Record<string, { readonly dtype: DType; readonly shape: PartialShape }>>;

/** Builds the model in a graph of its own. */
export function describeNetwork(network: Network, types: InputTypes): string {
  using graph = new Graph();
  return graph.asDefault(() => {
    const inputs = Object.fromEntries(
      Object.entries(types).map(([name, type]) => [name, placeholder({ ...type, name })]),
    );
    const rows = Object.entries(types).map(([name, { shape }]) => [
      `${name} (input)`,
      formatShape(shape),
      '0',
    ]);
    const seen = new Set<string>();
    let [total, trainable] = [0, 0];
    network.build(inputs, {
      training: false,
      onLayer: ({ layer, name }, { outputs }) => {
        const created = globalVariables(graph).filter((variable) => !seen.has(variable.name));
        let count = 0;
        for (const variable of created) {
          seen.add(variable.name);
          const size = sizeOf(variable.shape as Shape);
          count += size;
          if (variable.trainable) trainable += size;
        }
        total += count;
        const title = name === layer.kind ? name : `${name} (${layer.kind})`;
        rows.push([title, outputs.map(({ shape }) => formatShape(shape)).join(', '), grouped(count)]);
      },
    });
    return [
      table(['layer', 'output shape', 'parameters'], rows),
      `${grouped(total)} parameters, ${grouped(trainable)} of them trainable`,
    ].join('\n');
  });
}
