// One task of the export benchmark, on Shoal. The worker responds to JSON lines:
//   {"do": "export", "target"} → {"ms", "syncedMs", "cpuMs"}; `syncedMs` includes flushing the files to the disk
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Graph, tf } from '../../dist/index.js';
import { predictSignatureDef, SavedModelBuilder, tags } from '../../dist/training/saved-model/index.js';
import { Server } from '../../dist/training/train/index.js';
import { RecoverableSession } from '../../dist/training/train/recovery/recoverable-session.js';

const { mb, directory, cluster, jobName, taskIndex } = JSON.parse(process.env.BENCH);
const server = await Server.start({
  cluster,
  jobName,
  taskIndex,
  directory: join(directory, `${jobName}-${taskIndex}`),
  log: () => {},
});

const PARTS = 8;
const COLUMNS = 1024;

function build(graph) {
  const rows = (mb * 2 ** 20) / PARTS / 4 / COLUMNS;
  graph.device('/job:ps/task:0', () => tf.getOrCreateGlobalStep());
  const initializer = tf.randomUniformInitializer(-1, 1);
  const row = tf.placeholder({ dtype: 'int32', shape: [], name: 'row' });
  const parts = Array.from({ length: PARTS }, (_, i) =>
    graph.device(`/job:ps/task:${i % 2}`, () =>
      tf.variable(`part${i}`, { shape: [rows, COLUMNS], initializer }),
    ),
  );
  // slice, not gather: TensorFlow would treat gathered variables as sparse tables and copy them when they are read.
  const start = tf.stack([row, 0]);
  const picked = parts.map((part) => tf.slice(part, start, [1, COLUMNS]));
  return { row, y: picked.reduce((a, b) => a.add(b)) };
}

if (jobName === 'ps') {
  process.stdin.resume().on('end', () => process.exit(0));
  await server.join();
} else {
  const graph = new Graph();
  const { row, y } = graph.asDefault(() => graph.device('/job:worker/task:0', () => build(graph)));
  const runner = server.session(graph);
  const session = new RecoverableSession({ runner, graph, isChief: true, stepMs: 600_000 });
  await session.ready();
  const signatureDefMap = {
    serving_default: predictSignatureDef({ inputs: { row }, outputs: { y } }),
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const { target } = JSON.parse(line);
    const [start, cpu] = [performance.now(), process.cpuUsage()];
    const builder = new SavedModelBuilder(target);
    const source = { graph, server, run: runner.run.bind(runner) };
    await builder.addMetaGraphAndVariables(source, [tags.serving], { signatureDefMap });
    await builder.save();
    const ms = performance.now() - start;
    const { user, system } = process.cpuUsage(cpu);
    // Shoal flushes the files before it publishes them.
    console.log(JSON.stringify({ ms, syncedMs: ms, cpuMs: (user + system) / 1000 }));
  }
  process.exit(0);
}
