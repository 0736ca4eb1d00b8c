/** Input on a cluster: the pipeline runs on the worker, the model is on the ps, and sessions come and go. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { replicaDeviceSetter } from '../cluster/device-setter.js';
import { TensorFlowServer } from '../cluster/tensorflow-server.js';
import { encodeExample } from '../formats/example/encode.js';
import { TFRecordWriter } from '../formats/tfrecord/writer.js';
import { Graph } from '../graph/graph.js';
import { group } from '../ops/creation.js';
import * as raw from '../ops/generated/index.js';
import { Session } from '../session/session.js';
import { Tensor } from '../tensor/tensor.js';
import {
  globalVariablesInitializer,
  localVariablesInitializer,
  tablesInitializer,
} from '../variables/initialize.js';
import { variable } from '../variables/variable-scope.js';
import { startFeeders } from './generator.js';
import { LedgerHost, planShards } from './ledger-host.js';
import { fixedLenFeature } from './parse-example.js';
import { recordProgress, ShardInput } from './shards.js';
import { drainFetch } from './testing/drain.js';

const RECORDS = 40;
let folder: string;
let ps: TensorFlowServer;
let worker: TensorFlowServer;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-input-cluster-'));
  await using writer = new TFRecordWriter(join(folder, 'records'));
  for (let i = 0; i < RECORDS; i++) await writer.write(encodeExample({ id: [BigInt(i)] }));
  ps = TensorFlowServer.start({ host: '127.0.0.1', port: 0 });
  worker = TensorFlowServer.start({ host: '127.0.0.1', port: 0 });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const open = (graph: Graph) =>
  Session.create({
    graph,
    target: worker.target,
    timeoutMs: 30_000,
    config: {
      clusterDef: {
        job: [
          { name: 'ps', tasks: { 0: ps.address } },
          { name: 'worker', tasks: { 0: worker.address } },
        ],
      },
      experimental: { shareSessionStateInClusterspecPropagation: true },
    },
  });

/** Counts on the ps how often each record was applied. */
function build() {
  const graph = new Graph();
  const setter = replicaDeviceSetter({ psTasks: 1, workerDevice: '/job:worker/task:0' });
  return graph.device(setter, () =>
    graph.asDefault(() => {
      const input = new ShardInput({ shuffle: 5 });
      const counts = variable('counts', {
        shape: [RECORDS],
        dtype: 'int32',
        initializer: Tensor.zeros([RECORDS], 'int32'),
      });
      const features = { id: fixedLenFeature([], 'int64') };
      const iterator = input.batch(3).parseExample(features, { parallel: 2 }).prefetch(2).iterator();
      const { value, position } = iterator.getNext();
      const ones = raw.onesLike(raw.cast(value.id, { dstT: 'int32' }));
      const apply = raw.resourceScatterAdd(counts.handle, value.id, ones);
      const { op, progress } = recordProgress('worker0', position, apply);
      return {
        graph,
        input,
        counts,
        progress,
        step: { train: op, position },
        init: globalVariablesInitializer(),
        begin: group([localVariablesInitializer(), tablesInitializer()]),
      };
    }),
  );
}

describe('shards on a cluster', () => {
  test('are applied once each, though a session ends in the middle with a step unreported', async () => {
    const { shards } = await planShards(join(folder, 'records'), { recordsPerShard: 9 });
    const host = new LedgerHost({ shards, epochs: 1, seed: 2, shuffleShards: true });
    const { graph, input, counts, progress, step, init, begin } = build();
    input.connect(host, 'worker0');

    const first = await open(graph);
    await first.run(init);
    await first.run(begin);
    const feeding = startFeeders(first);
    for (let i = 0; i < 4; i++) await input.completed((await first.run(step)).position);
    await first.run(step);
    // The step is not reported. What it wrote on the ps tells of it.
    const [lease, , upTo] = Array.from((await first.run(progress)).data, Number);
    host.done('worker0', lease as number, upTo as number);
    await feeding.stop();
    await first.close();

    const second = await open(graph);
    await second.run(begin);
    const again = startFeeders(second);
    const reported = {
      graph,
      run: async (fetches: object) => {
        const result = await second.run(fetches as typeof step);
        await input.completed(result.position);
        return result;
      },
    };
    await drainFetch(reported as unknown as Session, step);
    await again.stop();
    expect((await second.run(counts)).toArray()).toEqual(Array(RECORDS).fill(1));
    await second.close();
    expect(host.isOver).toBe(true);
  });
});
