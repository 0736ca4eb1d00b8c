/** Input on a cluster: the pipeline runs on the worker, the model is on the ps, and sessions are reopened. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TensorFlowServer } from '../../distributed/cluster/grpc/tensorflow-server.js';
import { replicaDeviceSetter } from '../../distributed/cluster/spec/device-setter.js';
import { encodeExample } from '../../tensorflow/formats/example/encode.js';
import { TFRecordWriter } from '../../tensorflow/formats/tfrecord/writer.js';
import { Graph } from '../../tensorflow/graph/graph.js';
import { constant } from '../../tensorflow/ops/creation.js';
import { GradientDescentOptimizer } from '../../tensorflow/optimizers/rules/gradient-descent.js';
import { Session } from '../../tensorflow/session/session.js';
import { Tensor } from '../../tensorflow/tensor/tensor.js';
import { globalVariablesInitializer, tablesInitializer } from '../../tensorflow/variables/initialize.js';
import { variable } from '../../tensorflow/variables/variable-scope.js';
import { startFeeders } from './dataset/generator.js';
import { fixedLenFeature } from './dataset/parse-example.js';
import { InputRelease } from './dataset/release.js';
import { LedgerHost, planShards } from './leases/ledger-host.js';
import { ShardInput } from './leases/shards.js';
import { isVoidStep, MarkKeeper, type MarkSession, StepMarks } from './leases/step-marks.js';
import { drainFetch } from './testing/drain.js';

const RECORDS = 40;
let folder: string;
let ps: TensorFlowServer;
let worker: TensorFlowServer;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-input-cluster-'));
  await using writer = new TFRecordWriter(join(folder, 'records'));
  for (let i = 0; i < RECORDS; i++) await writer.write(encodeExample({ id: [BigInt(i)] }));
  ps = await TensorFlowServer.start({ host: '127.0.0.1', port: 0 });
  worker = await TensorFlowServer.start({ host: '127.0.0.1', port: 0 });
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

/** A session that is opened at its first run. */
function openLater(graph: Graph): MarkSession {
  let session: Promise<Session> | undefined;
  const opened = () => {
    session ??= open(graph);
    return session;
  };
  return {
    run: (async (fetches: object, options: object) =>
      (await opened()).run(fetches as never, options)) as never,
    close: async () => (await opened()).close(),
  };
}

const WORKER = '/job:worker/task:0';

/** Counts on the ps how often each record was applied: a gradient descent step adds one for each. */
function build() {
  const graph = new Graph();
  const setter = replicaDeviceSetter({ psTasks: 1, workerDevice: WORKER });
  return graph.device(setter, () =>
    graph.asDefault(() => {
      const input = new ShardInput({ shuffle: 5 });
      const counts = variable('counts', { shape: [RECORDS], initializer: Tensor.zeros([RECORDS]) });
      const features = { id: fixedLenFeature([], 'int64') };
      const iterator = input.batch(3).parseExample(features, { parallel: 2 }).prefetch(2).iterator();
      const { value, position } = iterator.getNext();
      const loss = counts.gather(value.id).sum().neg();
      const marks = new StepMarks(WORKER, position, constant(Tensor.of(0n)));
      const train = new GradientDescentOptimizer(1).minimize(loss, { guard: marks });
      return {
        graph,
        input,
        counts,
        marks,
        step: { train, position },
        init: globalVariablesInitializer(),
        begin: tablesInitializer(),
      };
    }),
  );
}

describe('shards on a cluster', () => {
  test('are applied exactly once, even if a session ends before a step is reported', async () => {
    const { shards } = await planShards(join(folder, 'records'), { recordsPerShard: 9 });
    const host = new LedgerHost({ shards, epochs: 1, seed: 2, shuffleShards: true });
    const { graph, input, counts, marks, step, init, begin } = build();
    expect(marks.devices).toEqual(['/job:ps/task:0']);
    input.connect(host, WORKER);
    await using keeper = new MarkKeeper(openLater, marks.devices, 1);

    const first = await open(graph);
    await first.run(init);
    await first.run(begin);
    await keeper.open(WORKER, { term: 0, lease: 0 });
    const feeding = startFeeders(first);
    for (let i = 0; i < 4; i++) await input.completed((await first.run(step)).position);
    const { position } = await first.run(step);
    // The step is not reported; its mark on the ps shows that it was applied.
    const { applied, partial } = await keeper.lastSteps(WORKER, host.held(WORKER));
    const [lease, from, to] = Array.from(position.data, Number);
    expect({ applied, partial }).toEqual({ applied: [{ lease, from, to }], partial: [] });
    for (const mark of applied) host.done(WORKER, mark.lease, mark.to, mark.from);

    // A refused worker leaves no mark, however often it tries.
    await keeper.close([WORKER]);
    const error = await first.run(step).catch((reason: unknown) => reason);
    expect(isVoidStep(error)).toBe(true);
    expect((await keeper.lastSteps(WORKER, host.held(WORKER))).applied).toEqual(applied);
    await feeding.stop();
    await new InputRelease(graph).beforeClose?.(first);
    await first.close();

    const second = await open(graph);
    await second.run(begin);
    await keeper.open(WORKER, host.fence);
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
