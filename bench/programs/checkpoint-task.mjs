// One task of the checkpoint benchmark, on Shoal. The worker responds to JSON lines:
//   {"do": "train", "seconds", "saveAt": [seconds], "tail"} →
//       {"ends": [ms], "times": [ms], "saves": [[start, end]], "pauses": [ms]}
//   {"do": "save"} → {"ms", "cpuMs", "path"}
//   {"do": "restore", "path"} → {"ms"}
//   {"do": "idle", "seconds"} → {"cpuMs"}
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Graph, tf } from '../../dist/index.js';
import { Saver, Server } from '../../dist/training/train/index.js';
import { RecoverableSession } from '../../dist/training/train/recovery/recoverable-session.js';

const { model, mb, directory, cluster, jobName } = JSON.parse(process.env.BENCH);
const server = await Server.start({
  cluster,
  jobName,
  taskIndex: 0,
  directory: join(directory, jobName),
  // Every byte is written once, as by Python.
  replicas: 0,
  log: () => {},
});

const PARTS = 8;
const PS = '/job:ps/task:0';
const bytesEach = (mb * 2 ** 20) / PARTS;

function build(graph) {
  const globalStep = graph.device(PS, () => tf.getOrCreateGlobalStep());
  const columns = model === 'sparse' ? 16 : 1024;
  const rows = bytesEach / 4 / columns;
  // Random numbers, because a file system may store zeros in less space.
  const initializer = tf.randomUniformInitializer(-1, 1);
  const parts = Array.from({ length: PARTS }, (_, i) =>
    graph.device(PS, () => tf.variable(`part${i}`, { shape: [rows, columns], initializer })),
  );
  const ids = (count) => tf.randomUniform([count], 0, rows, { dtype: 'int32' });
  const countStep = globalStep.assignAdd(1n);
  if (model === 'sparse') {
    const updates = parts.map((table) => {
      const rowIds = ids(1000 / PARTS);
      const change = tf.randomUniform([1000 / PARTS, columns], -0.01, 0.01);
      return graph.device(PS, () => table.scatterAdd(rowIds, change));
    });
    return [countStep, ...updates];
  }
  if (model === 'all') {
    const change = tf.randomUniform([], -0.01, 0.01);
    return [
      countStep,
      ...parts.map((part) => graph.device(PS, () => part.assignAdd(tf.fill([rows, columns], change)))),
    ];
  }
  // slice, not gather: TensorFlow would treat gathered variables as sparse tables and copy them when they are read.
  const row = tf.concat([ids(1), [0]], 0);
  const picked = parts.map((part) => graph.device(PS, () => tf.slice(part, row, [1, columns])));
  const features = picked.reduce((a, b) => a.add(b));
  const w = graph.device(PS, () => tf.variable('w', { shape: [columns, 16], initializer }));
  const loss = features.matMul(w).square().mean();
  return [countStep, tf.train.sgd(0.01).minimize(loss, { varList: [w] })];
}

/** An array that collects the durations of the pauses at the gate. */
function timePauses(gate) {
  const pauses = [];
  const { pause, resume } = gate;
  let since;
  gate.pause = (options) => {
    since = performance.now();
    return pause.call(gate, options);
  };
  gate.resume = () => {
    pauses.push(performance.now() - since);
    return resume.call(gate);
  };
  return pauses;
}

if (jobName === 'ps') {
  process.stdin.resume().on('end', () => process.exit(0));
  await server.join();
} else {
  const graph = new Graph();
  const workerDevice = '/job:worker/task:0';
  const ops = graph.asDefault(() => graph.device(workerDevice, () => build(graph)));
  const cluster = server.session(graph);
  const { gate } = server.checkpoints;
  const pauses = timePauses(gate);
  const session = new RecoverableSession({
    runner: cluster,
    graph,
    isChief: true,
    gate,
    stepMs: 600_000,
  });
  await session.ready();
  const runner = { graph, server, run: cluster.run.bind(cluster) };
  const saver = new Saver({ maxToKeep: 0, namespace: 'bench', log: (line) => console.error(line) });
  const path = join(directory, 'view', 'model.ckpt');
  const save = () => saver.save(runner, path);

  const commands = {
    async train({ seconds, saveAt = [], tail = 0 }) {
      const [ends, times, saves] = [[], [], []];
      const trainingStart = performance.now();
      const due = saveAt.map((at) => trainingStart + at * 1000);
      let until = trainingStart + seconds * 1000;
      let saving;
      for (let start = trainingStart; start < until || saving || due.length > 0; ) {
        if (!saving && due.length > 0 && start >= due[0]) {
          due.shift();
          saving = save().then(() => {
            const end = performance.now();
            saves.push([start - trainingStart, end - trainingStart]);
            until = Math.max(until, end + tail * 1000);
            saving = undefined;
          });
        }
        const from = performance.now();
        await session.run(ops);
        start = performance.now();
        times.push(start - from);
        ends.push(start - trainingStart);
      }
      return { ends, times, saves, pauses: pauses.splice(0) };
    },
    async save() {
      const [start, cpu] = [performance.now(), process.cpuUsage()];
      const saved = await save();
      const { user, system } = process.cpuUsage(cpu);
      return { ms: performance.now() - start, cpuMs: (user + system) / 1000, path: saved };
    },
    async restore({ path: saved }) {
      const start = performance.now();
      await saver.restore(runner, saved);
      return { ms: performance.now() - start };
    },
    async idle({ seconds }) {
      const cpu = process.cpuUsage();
      await sleep(seconds * 1000);
      const { user, system } = process.cpuUsage(cpu);
      return { cpuMs: (user + system) / 1000 };
    },
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    console.log(JSON.stringify(await commands[request.do](request)));
  }
  process.exit(0);
}
