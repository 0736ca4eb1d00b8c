// One task of a cluster with a variable on its ps. The worker responds to {"do": "pull" | "push", "mb", "count"} with
// {"value": GB/s} of reading the variable, or of assigning a fed value to it.
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { ClusterServer } from '../../dist/distributed/cluster/runtime/cluster-server.js';
import { ClusterSpec } from '../../dist/distributed/cluster/spec/cluster-spec.js';
import { taskId } from '../../dist/distributed/cluster/spec/task-id.js';
import { Graph, Tensor, tf } from '../../dist/index.js';
import * as raw from '../../dist/tensorflow/ops/generated/index.js';

const { cluster, jobName, taskIndex, engine } = JSON.parse(process.env.BENCH);
const self = taskId(jobName, taskIndex);
const server = await ClusterServer.create({
  spec: new ClusterSpec(cluster),
  self,
  security: { kind: 'none' },
  engine,
});

if (jobName === 'ps') process.stdin.resume().on('end', () => process.exit(0));
else {
  const graph = new Graph();
  const session = server.session(graph);
  const known = new Map();
  const variableOf = async (mb) => {
    if (!known.has(mb)) {
      const size = (mb * 1_000_000) / 4;
      const value = Tensor.allocate([size], 'float32');
      value.setBytes(new Uint8Array(mb * 1_000_000).fill(1), 0);
      const parts = graph.asDefault(() => {
        const fed = tf.placeholder({ dtype: 'float32', shape: [size] });
        return graph.device('/job:ps/task:0', () => {
          const handle = raw.varHandleOp({
            dtype: 'float32',
            shape: [size],
            sharedName: join('bench', `${mb}`),
          });
          return {
            fed,
            read: raw.readVariableOp(handle, { dtype: 'float32' }),
            assign: raw.assignVariableOp(handle, fed),
          };
        });
      });
      known.set(mb, { ...parts, value });
      await session.run(parts.assign, { feeds: [[parts.fed, value]] });
    }
    return known.get(mb);
  };
  const commands = {
    pull: async ({ read }) => (await session.run(read)).dispose(),
    push: async ({ assign, fed, value }) => session.run(assign, { feeds: [[fed, value]] }),
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const { do: what, mb, count } = JSON.parse(line);
    const variable = await variableOf(mb);
    const start = performance.now();
    for (let i = 0; i < count; i++) await commands[what](variable);
    console.log(JSON.stringify({ value: (count * mb) / (performance.now() - start) }));
  }
  process.exit(0);
}
