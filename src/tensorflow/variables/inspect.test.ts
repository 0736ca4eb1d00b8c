/** Parts of a graph print on one line. */
import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { Graph } from '../graph/graph.js';
import { placeholder } from '../ops/index.js';
import { fixedSizePartitioner, partitionedVariable, variable } from './index.js';

test('console.log of graphs, ops, outputs and variables', () => {
  using graph = new Graph();
  graph.asDefault(() => {
    const x = placeholder({ shape: [null, 2], name: 'x' });
    expect(inspect(x)).toBe("Output('x:0', float32 [?, 2])");
    expect(inspect(x.op)).toBe("Placeholder 'x'");
    expect(inspect(graph)).toBe('Graph(1 ops)');
    expect(inspect({ w: variable('w', { shape: [2, 1] }) })).toBe("{ w: Variable('w', float32 [2,1]) }");
    const parts = partitionedVariable('p', { shape: [4], partitioner: fixedSizePartitioner(2) });
    expect(inspect(parts)).toBe("PartitionedVariable('p', float32 [4], 2 parts)");
  });
});
