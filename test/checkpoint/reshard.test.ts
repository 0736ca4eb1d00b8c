/** Restores a checkpoint into a cluster of another size, and TensorFlow's own checkpoints into a cluster. */
import { createHash } from 'node:crypto';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { choosePorts } from '../../src/app/job/launcher/ports.js';
import * as tf from '../../src/app/tf/index.js';
import { ClusterSpec } from '../../src/distributed/cluster/spec/cluster-spec.js';
import { replicaDeviceSetter } from '../../src/distributed/cluster/spec/device-setter.js';
import { taskId } from '../../src/distributed/cluster/spec/task-id.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import { Saver, type SaverOptions } from '../../src/training/train/checkpoints/saver.js';
import { Server } from '../../src/training/train/task/server.js';
import { askPython } from '../python.js';

const PYTHON = new URL('../../src/training/train/testing/saver.py', import.meta.url);
const ROWS = 101;

let dir = '';
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'shoal-reshard-'));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

interface Cluster extends AsyncDisposable {
  readonly chief: Server;
  readonly psCount: number;
}

/** Starts all tasks in this process, each with its own server, agent and directory. */
async function cluster(psCount: number): Promise<Cluster> {
  const ports = await choosePorts('127.0.0.1', psCount + 1);
  const spec = new ClusterSpec({
    ps: ports.slice(1).map((port) => `127.0.0.1:${port}`),
    worker: [`127.0.0.1:${ports[0]}`],
  });
  const start = (job: string, index: number) => {
    const blobRoot = join(dir, `${job}-${index}`);
    return Server.open({
      spec,
      self: taskId(job, index),
      security: { kind: 'none' },
      blobRoot,
    });
  };
  const tasks = [await start('worker', 0)];
  for (let i = 0; i < psCount; i++) tasks.push(await start('ps', i));
  const chief = tasks[0]!;
  await chief.task.waitFor(chief.psTasks, { timeoutMs: 60_000 });
  return {
    chief,
    psCount,
    async [Symbol.asyncDispose]() {
      for (const server of tasks) await server.close();
    },
  };
}

/** A table with one partition per ps, FTRL's two slots, and the global step. */
function model({ psCount, chief }: Cluster) {
  const graph = new Graph();
  const device = replicaDeviceSetter({ psTasks: psCount, workerDevice: chief.task.task });
  return graph.asDefault(() =>
    graph.device(device, () => {
      const step = tf.getOrCreateGlobalStep();
      const table = tf.partitionedVariable('table', {
        shape: [ROWS, 3],
        initializer: tf.randomUniformInitializer(-1, 1, { seed: 3 }),
        partitioner: tf.fixedSizePartitioner(psCount),
      });
      const rows = tf.embeddingLookup(table, tf.constant([1n, 50n, 100n, 7n]));
      const loss = tf.sum(tf.square(rows.sub(1)));
      const trainOp = tf.train.ftrl(0.1).minimize(loss, { globalStep: step });
      return { graph, trainOp, init: tf.globalVariablesInitializer(graph) };
    }),
  );
}

/** Every variable by its name in a checkpoint, with its partitions joined. */
async function values(session: { run: (f: never) => Promise<unknown> }, graph: Graph) {
  const found: Record<string, unknown[]> = {};
  for (const variable of tf.globalVariables(graph)) {
    const value = (await session.run(variable.toOutput() as never)) as { toArray(): unknown };
    const key = variable.sliceInfo?.fullName ?? variable.name;
    const rows = value.toArray();
    found[key] = [...(found[key] ?? []), ...(Array.isArray(rows) ? rows : [Number(rows)])];
  }
  return found;
}

function open(place: Cluster, graph: Graph) {
  const session = place.chief.session(graph);
  const run: typeof session.run = (fetches, options) => session.run(fetches, options);
  return { graph, server: place.chief, run, close: () => session.close() };
}

async function restored(
  psCount: number,
  path: string,
  options: SaverOptions,
): Promise<Record<string, unknown[]>> {
  await using place = await cluster(psCount);
  const { graph } = model(place);
  const session = open(place, graph);
  try {
    const report = await new Saver(options).restore(session, path);
    expect(report).toMatchObject({ missing: [], unused: [] });
    return await values(session, graph);
  } finally {
    await session.close();
  }
}

/** The TensorFlow prefix of the only checkpoint below a folder. */
async function prefixBelow(folder: string): Promise<string> {
  const [index] = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith('.index'));
  return join(folder, (index as string).replace(/\.index$/, ''));
}

describe('a checkpoint of two ps', () => {
  test('is restored by three and by one ps, weights and slots bit for bit', async () => {
    const path = join(dir, 'logs', 'model.ckpt-3');
    const options: SaverOptions = { store: `file:${join(dir, 'shared')}` };
    let before: Record<string, unknown[]>;
    {
      await using place = await cluster(2);
      const { graph, init, trainOp } = model(place);
      const session = open(place, graph);
      await session.run(init);
      for (let i = 0; i < 3; i++) await session.run(trainOp);
      before = await values(session, graph);
      expect(await new Saver(options).save(session, join(dir, 'logs', 'model.ckpt'))).toBe(path);
      expect(await new Saver().save(session, join(dir, 'logs', 'model.ckpt'))).toBe(path);
      await session.close();
    }
    expect(Object.keys(before).sort()).toEqual(['global_step', 'table', 'table/Ftrl', 'table/Ftrl_1']);
    expect(await restored(3, path, options)).toEqual(before);
    expect(await restored(1, path, options)).toEqual(before);
    // From the disks of the two ps, which two of the three reuse.
    expect(await restored(3, path, {})).toEqual(before);
    const seen = await askPython<Record<string, unknown>>(PYTHON, {
      read: await prefixBelow(join(dir, 'shared')),
    });
    expect(seen.table).toEqual(before.table);
  });

  test('with large tensors, which bypass the page cache, is readable by TensorFlow', async () => {
    const rows = { small: 3, large: 1500, larger: 5003 };
    const build = (place: Cluster) => {
      const graph = new Graph();
      const device = replicaDeviceSetter({ psTasks: place.psCount, workerDevice: place.chief.task.task });
      const initializer = tf.randomUniformInitializer(-1, 1);
      return graph.asDefault(() =>
        graph.device(device, () => {
          const variables = Object.entries(rows).map(([name, count]) =>
            tf.variable(name, { shape: [count, 1024], initializer }),
          );
          return { graph, variables, init: tf.globalVariablesInitializer(graph) };
        }),
      );
    };
    const digests = async (session: ReturnType<typeof open>, { variables }: ReturnType<typeof build>) => {
      const found: Record<string, string> = {};
      for (const variable of variables) {
        using value = await session.run(variable.toOutput());
        found[variable.name] = createHash('sha256').update(value.data).digest('hex');
      }
      return found;
    };
    const options: SaverOptions = { store: `file:${join(dir, 'shared')}` };
    let path: string;
    let before: Record<string, string>;
    {
      await using place = await cluster(2);
      const built = build(place);
      const session = open(place, built.graph);
      await session.run(built.init);
      before = await digests(session, built);
      path = await new Saver(options).save(session, join(dir, 'logs', 'model.ckpt'));
      await session.close();
    }
    expect(await askPython(PYTHON, { digest: await prefixBelow(join(dir, 'shared')) })).toEqual(before);
    for (const psCount of [1, 2]) {
      await using place = await cluster(psCount);
      const built = build(place);
      const session = open(place, built.graph);
      await new Saver(options).restore(session, path);
      expect(await digests(session, built)).toEqual(before);
      await session.close();
    }
  });
});

describe("TensorFlow's own checkpoint", () => {
  test('is restored into a running cluster bit for bit: plain, sharded, partitioned, with slots', async () => {
    const written = await askPython<{ paths: string[]; values: Record<string, unknown> }>(PYTHON, {
      write: dir,
    });
    await using place = await cluster(2);
    const graph = new Graph();
    const device = replicaDeviceSetter({ psTasks: 2, workerDevice: place.chief.task.task });
    const { table } = graph.asDefault(() =>
      graph.device(device, () => {
        const w = tf.variable('w', { shape: [3, 4] });
        const table = tf.partitionedVariable('table', {
          shape: [10, 2],
          partitioner: tf.fixedSizePartitioner(2),
        });
        tf.train.adagrad(0.1).minimize(tf.sum(tf.square(w)).add(tf.sum(table.toOutput())));
        return { table };
      }),
    );
    const session = open(place, graph);
    for (const path of written.paths) {
      const saver = new Saver();
      const report = await saver.restore(session, path);
      expect([...report.unused].sort()).toEqual(['flags', 'global_step', 'words']);
      const found = await values(session, graph);
      expect(found.w).toEqual(written.values.w);
      expect(found['w/Adagrad']).toEqual(written.values['w/Adagrad']);
      expect((await session.run(table.toOutput())).toArray()).toEqual(written.values.table);
      expect(await saver.list(session, join(path, '..'))).toEqual([]);
    }
    await session.close();
  });
});
