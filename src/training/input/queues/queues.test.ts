/** The classic queue input, run by Shoal's queue runners and, from a MetaGraphDef, by Python's. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { askPython } from '../../../../test/python.js';
import { replicaDeviceSetter } from '../../../distributed/cluster/spec/device-setter.js';
import { encodeExample } from '../../../tensorflow/formats/example/encode.js';
import { TFRecordWriter } from '../../../tensorflow/formats/tfrecord/writer.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { Session } from '../../../tensorflow/session/session.js';
import { GraphKeys } from '../../../tensorflow/variables/collections.js';
import { localVariablesInitializer } from '../../../tensorflow/variables/initialize.js';
import { exportMetaGraph, metaGraphBytes } from '../../../tensorflow/variables/meta-graph.js';
import { startQueueRunners } from '../../train/core/queue-runners.js';
import { Coordinator } from '../../train/recovery/coordinator.js';
import { fixedLenFeature, parseExample, varLenFeature } from '../dataset/parse-example.js';
import { drainFetch } from '../testing/drain.js';
import * as queues from './queues.js';

const PYTHON = new URL('../testing/queues.py', import.meta.url);

let folder: string;
const FILES = 3;
const RECORDS = 20;
const wordsOf = (file: number) => Array.from({ length: RECORDS }, (_, i) => `${file}-${i}`);
const ALL = Array.from({ length: FILES }, (_, file) => wordsOf(file)).flat();

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-queues-'));
  for (let file = 0; file < FILES; file++) {
    await using writer = new TFRecordWriter(join(folder, `w-${file}.tfrecord`));
    for (const word of wordsOf(file)) await writer.write(Buffer.from(word));
    writeFileSync(join(folder, `t-${file}.txt`), `${wordsOf(file).join('\n')}\n`);
  }
  await using writer = new TFRecordWriter(join(folder, 'examples'));
  for (let i = 0; i < 7; i++) {
    const ids = BigInt64Array.from({ length: i % 3 }, () => BigInt(i));
    await writer.write(encodeExample({ label: i, ids }));
  }
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a graph's queues until the end of the input. */
async function drainQueues(graph: Graph, fetch: object): Promise<unknown[]> {
  const init = localVariablesInitializer(graph);
  await using session = Session.open({ graph });
  await session.run(init);
  const coordinator = new Coordinator();
  startQueueRunners(session, { coordinator });
  const found = await drainFetch(session, fetch);
  coordinator.requestStop();
  await coordinator.join();
  return found;
}

/** The pipeline of scenario 001: files by pattern, epochs, a reader, shuffled batches. */
function shuffled(graph: Graph, numThreads: number): Output<'string'> {
  return graph.asDefault(() => {
    const files = queues.matchFilenamesOnce(join(folder, 'w-*.tfrecord'));
    const names = queues.stringInputProducer(files, { numEpochs: 2, seed: 4 });
    const { value } = new queues.TFRecordReader().read(names);
    return queues.shuffleBatch(value, {
      batchSize: 7,
      capacity: 60,
      minAfterDequeue: 20,
      numThreads,
      allowSmallerFinalBatch: true,
    });
  });
}

describe('shuffled batches', () => {
  test('contain every record once per epoch, in another order', async () => {
    const graph = new Graph();
    const batches = (await drainQueues(graph, shuffled(graph, 3))) as string[][];
    const records = batches.flat();
    expect([...records].sort()).toEqual([...ALL, ...ALL].sort());
    expect(records).not.toEqual([...ALL, ...ALL]);
    expect(batches.slice(0, -1).every((batch) => batch.length === 7)).toBe(true);
  });

  test('are read by Python from a MetaGraphDef through its queue runners', async () => {
    const graph = new Graph();
    const fetch = shuffled(graph, 2);
    const meta = join(folder, 'model.meta');
    writeFileSync(meta, metaGraphBytes(exportMetaGraph({ graph })));
    const seen = await askPython<{ runners: string[]; threads: number[]; records: string[] }>(PYTHON, {
      meta,
      fetch: fetch.name,
    });
    expect(seen.runners).toEqual(['QueueRunner', 'QueueRunner']);
    expect(seen.threads).toEqual([1, 2]);
    expect(seen.records.sort()).toEqual([...ALL, ...ALL].sort());
  });
});

test('strings have the same order as in TensorFlow for the same seed', async () => {
  const strings = ['a', 'b', 'c', 'd', 'e', 'f'];
  const expected = await askPython(PYTHON, { strings, epochs: 3, seed: 17 });
  const graph = new Graph();
  const next = graph.asDefault(() => {
    const [name] = queues.stringInputProducer(strings, { numEpochs: 3, seed: 17 }).dequeue();
    return name as Output;
  });
  expect(await drainQueues(graph, next)).toEqual(expected);
});

test('lines are batched in order', async () => {
  const graph = new Graph();
  const next = graph.asDefault(() => {
    const files = [join(folder, 't-0.txt'), join(folder, 't-1.txt')];
    const names = queues.stringInputProducer(files, { numEpochs: 1, shuffle: false });
    const { value } = new queues.TextLineReader({ skipHeaderLines: 1 }).read(names);
    return queues.batch({ line: value }, { batchSize: 38 });
  });
  expect(await drainQueues(graph, next)).toEqual([
    { line: [...wordsOf(0).slice(1), ...wordsOf(1).slice(1)] },
  ]);
});

test('many records are enqueued at a time, with sparse features', async () => {
  const graph = new Graph();
  const next = graph.asDefault(() => {
    const names = queues.stringInputProducer([join(folder, 'examples')], { numEpochs: 1 });
    const { values } = new queues.TFRecordReader().readUpTo(names, 3);
    const features = { label: fixedLenFeature([], 'float32'), ids: varLenFeature('int64') };
    const { label, ids } = parseExample(values, features);
    return queues.batch({ label, ids }, { batchSize: 4, enqueueMany: true, allowSmallerFinalBatch: true });
  });
  const batches = await drainQueues(graph, next);
  expect(batches).toMatchObject([
    { label: [0, 1, 2, 3], ids: { values: [1, 2, 2] } },
    { label: [4, 5, 6], ids: { values: [4, 5, 5] } },
  ]);
});

test('parsed batches are prefetched in order, up to the last', async () => {
  const graph = new Graph();
  const next = graph.asDefault(() => {
    const names = queues.stringInputProducer([join(folder, 'examples')], { numEpochs: 1 });
    const { values } = new queues.TFRecordReader().readUpTo(names, 3);
    const features = { label: fixedLenFeature([], 'float32'), ids: varLenFeature('int64') };
    return queues.prefetchQueue(parseExample(values, features));
  });
  expect(await drainQueues(graph, next)).toMatchObject([
    { label: [0, 1, 2], ids: { values: [1, 2, 2] } },
    { label: [3, 4, 5], ids: { values: [4, 5, 5] } },
    { label: [6], ids: { values: [] } },
  ]);
});

test('queues and their inputs are on the worker under a replica device setter', () => {
  const graph = new Graph();
  const setter = replicaDeviceSetter({ psTasks: 2, workerDevice: '/job:worker/task:0' });
  graph.device(setter, () => shuffled(graph, 2));
  const stateful = graph.operations().filter(({ type }) => /Queue|Reader|Var/.test(type));
  expect(stateful.length).toBeGreaterThan(5);
  expect(new Set(stateful.map(({ device }) => device))).toEqual(new Set(['/job:worker/task:0/device:CPU:0']));
});

describe('a queue runner', () => {
  test('unblocks its loops at a stop', async () => {
    const graph = new Graph();
    shuffled(graph, 2);
    const init = localVariablesInitializer(graph);
    await using session = Session.open({ graph });
    await session.run(init);
    const coordinator = new Coordinator();
    startQueueRunners(session, { coordinator });
    await new Promise((resolve) => setTimeout(resolve, 100));
    coordinator.requestStop();
    await coordinator.join([], { stopGracePeriodSecs: 20 });
  });

  test('reports an error of its input to the coordinator', async () => {
    const graph = new Graph();
    graph.asDefault(() => {
      const names = queues.stringInputProducer([join(folder, 'missing')], { shuffle: false });
      queues.batch(new queues.WholeFileReader().read(names).value, { batchSize: 1 });
    });
    await using session = Session.open({ graph });
    const coordinator = new Coordinator();
    startQueueRunners(session, { coordinator });
    await expect(coordinator.join()).rejects.toThrow(/missing/);
  });

  test('is restored from a MetaGraphDef', () => {
    const graph = new Graph();
    shuffled(graph, 2);
    const runners = graph.getCollection<queues.QueueRunner>(GraphKeys.queueRunners);
    for (const runner of runners) {
      const again = queues.QueueRunner.fromCollectionBytes(runner.toCollectionBytes(), graph);
      expect(again.enqueueOps).toEqual(runner.enqueueOps);
      expect(again.queueClosedCodes).toEqual(runner.queueClosedCodes);
    }
  });
});
