// Responds to {"rows", "steps"} with {"wall", "cpu"}, medians per step in ms, and to {"memory": true} with
// {"value": MB}.
import { createInterface } from 'node:readline';
import { Graph, Session, Tensor, tf } from '../../dist/index.js';
import { ftrl } from '../../dist/tensorflow/optimizers/index.js';

const [BATCH, IDS, COLUMNS] = [1000, 50, 2];
const COUNT = BATCH * IDS;
const models = new Map();

async function model(rows) {
  const graph = new Graph();
  const parts = graph.asDefault(() => {
    const table = tf.variable('table', { shape: [rows, COLUMNS], initializer: tf.zerosInitializer() });
    const ids = tf.placeholder({ dtype: 'int64', shape: [COUNT] });
    const values = tf.placeholder({ shape: [COUNT, 1] });
    const y = tf.placeholder({ shape: [BATCH, COLUMNS] });
    const logits = table.gather(ids).mul(values).reshape([BATCH, IDS, COLUMNS]).sum(1);
    const loss = logits.sub(y).square().sum();
    const train = ftrl(0.01).minimize(loss, { globalStep: tf.getOrCreateGlobalStep() });
    return { ids, values, y, loss, train, init: tf.globalVariablesInitializer() };
  });
  const session = Session.open({ graph });
  await session.run(parts.init);
  const floats = (shape) =>
    Tensor.of(Float32Array.from({ length: shape[0] * shape[1] }, Math.random), { shape });
  const batches = Array.from({ length: 10 }, () => [
    Tensor.of(BigInt64Array.from({ length: COUNT }, () => BigInt(Math.floor(Math.random() * rows)))),
    floats([COUNT, 1]),
    floats([BATCH, COLUMNS]),
  ]);
  const step = session.callable([parts.train, parts.loss], [parts.ids, parts.values, parts.y]);
  return (i) => step(...batches[i % batches.length]);
}

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

async function measure(rows, steps) {
  if (!models.has(rows)) models.set(rows, await model(rows));
  const [wall, cpu] = [[], []];
  for (let i = 0; i < steps; i++) {
    const [start, used] = [performance.now(), process.cpuUsage()];
    await models.get(rows)(i);
    const { user, system } = process.cpuUsage(used);
    wall.push(performance.now() - start);
    cpu.push((user + system) / 1000);
  }
  return { wall: median(wall), cpu: median(cpu) };
}

for await (const line of createInterface({ input: process.stdin })) {
  const { rows, steps, memory } = JSON.parse(line);
  const response = memory
    ? { value: Math.round(process.memoryUsage.rss() / 2 ** 20) }
    : await measure(rows, steps);
  console.log(JSON.stringify(response));
}
