/**
 * Steps on a real ps that are delayed at a chosen point while the chief closes the fence: the ledger matches the
 * model, however long the step takes from its check to its mark, or from its mark to its last update.
 */
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { sleep } from '../../../base/async/deadline.js';
import { TensorFlowServer } from '../../../distributed/cluster/grpc/tensorflow-server.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { placeholder } from '../../../tensorflow/ops/creation.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { GradientDescentOptimizer } from '../../../tensorflow/optimizers/rules/gradient-descent.js';
import { Session } from '../../../tensorflow/session/session.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { globalVariablesInitializer } from '../../../tensorflow/variables/initialize.js';
import { variable } from '../../../tensorflow/variables/variable-scope.js';
import { LeaseServer } from './lease-server.js';
import type { Lease } from './ledger.js';
import { LedgerHost } from './ledger-host.js';
import { isVoidStep, MarkKeeper, StepMarks } from './step-marks.js';

const PS = '/job:ps/task:0';
const WORKER = '/job:worker/task:0';
/** Longer than a wait that assumes fast steps. */
const DELAY_MS = 2000;

let ps: TensorFlowServer;
let worker: TensorFlowServer;
beforeAll(async () => {
  ps = await TensorFlowServer.start({ host: '127.0.0.1', port: 0 });
  worker = await TensorFlowServer.start({ host: '127.0.0.1', port: 0 });
});

const open = (graph: Graph) =>
  Session.open({
    graph,
    target: worker.target,
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

type DelayedMark = 'begun' | 'ended';

/**
 * A step that adds 1 to `sum` and blocks on the ps just before it writes a mark, until `release` is run. `reached`
 * returns when it blocks.
 */
function delayedStep(before: DelayedMark, name: string) {
  const source = new Graph();
  const names = source.device(PS, () =>
    source.asDefault(() => {
      const position = placeholder({ dtype: 'int64', shape: [4], name: 'position' });
      const slot = placeholder({ dtype: 'int64', shape: [], name: 'slot' });
      const sum = variable('sum', { shape: [], initializer: 0 });
      const guard = new StepMarks(WORKER, position, slot);
      const train = new GradientDescentOptimizer(1).minimize(sum.toOutput().neg(), { guard });
      const queue = (kind: string) =>
        raw.fifoQueueV2({ componentTypes: ['int64'], shapes: [[]], sharedName: `${name}/${kind}` });
      const put = (kind: string) => raw.queueEnqueueV2(queue(kind), [Tensor.of(1n)]);
      const take = (kind: string) =>
        raw.queueDequeueV2(queue(kind), { componentTypes: ['int64'] })[0]?.op as { name: string };
      return {
        train: train.name,
        init: globalVariablesInitializer().name,
        sum: sum.toOutput().name,
        arrive: put('reached').name,
        wait: take('release').name,
        reached: take('reached').name,
        release: put('release').name,
      };
    }),
  );
  const def = source.toGraphDef();
  const node = (found: string) => def.node.find(({ name }) => name === found) as (typeof def.node)[number];
  const handles = (kind: string) =>
    def.node
      .filter(({ attr }) => {
        const value = attr.shared_name?.value;
        return value?.case === 's' && Buffer.from(value.value).toString().endsWith(`/${kind}`);
      })
      .map(({ name }) => name);
  const users = (kind: string, op: string) =>
    def.node.filter((one) => one.op === op && handles(kind).includes(one.input[0] ?? ''));
  const [fenceRead] = users('fence', 'ReadVariableOp');
  const [mark] = users(before, 'ResourceScatterUpdate');
  const [begun] = users('begun', 'ResourceScatterUpdate');
  node(names.arrive).input.push(`^${before === 'begun' ? fenceRead?.name : begun?.name}`);
  node(names.wait).input.push(`^${names.arrive}`);
  mark?.input.push(`^${names.wait}`);
  const graph = new Graph();
  graph.importGraphDef(def);
  const op = (name: string) => graph.operation(name);
  return {
    graph,
    position: graph.output('position:0'),
    slot: graph.output('slot:0'),
    sum: graph.output(names.sum),
    train: op(names.train),
    init: op(names.init),
    reached: op(names.reached),
    release: op(names.release),
  };
}

const PLAN = {
  shards: [{ file: 'f', offset: 0, records: 4 }],
  epochs: 1,
  seed: 1,
  shuffleShards: false,
};

let session: Session;
let keeper: MarkKeeper;
let server: LeaseServer;
let host: LedgerHost;
let lines: string[];
let parts: ReturnType<typeof delayedStep>;
let step: Promise<unknown>;

/** Gives a worker a lease of four records and starts its step with the first two, blocked before a mark. */
async function begin(before: DelayedMark): Promise<void> {
  host = new LedgerHost(PLAN);
  parts = delayedStep(before, `delayed-${before}`);
  session = open(parts.graph);
  keeper = new MarkKeeper(open, [PS], 1);
  server = new LeaseServer({
    host,
    marks: keeper,
    workers: () => [WORKER],
    sessionPrefix: 'a',
    signal: new AbortController().signal,
    log: (line) => lines.push(line),
  });
  server.resume();
  await session.run(parts.init);
  const leaseSession = await server.begin(WORKER);
  const answer = await server.next(WORKER, { leaseSession, turn: 1, holding: [], waitMs: 10_000 });
  const { lease } = answer as { lease: Lease };
  const feeds = new Map([
    [parts.position, Tensor.of(BigInt64Array.of(BigInt(lease.id), 0n, 2n, BigInt(lease.term)))],
    [parts.slot, Tensor.of(0n)],
  ]);
  step = session.run(parts.train, { feeds, timeoutMs: 60_000 });
  step.catch(() => {});
  await session.run(parts.reached, { timeoutMs: 30_000 });
}

beforeEach(() => {
  lines = [];
});
afterEach(async () => {
  await keeper[Symbol.asyncDispose]();
  await session.close();
});

const isSettled = async (promise: Promise<unknown>): Promise<boolean> => {
  let settled = false;
  const note = () => {
    settled = true;
  };
  promise.then(note, note);
  await sleep(DELAY_MS);
  return settled;
};

/** Unblocks the step, and returns whether the model contains it. */
async function release(): Promise<boolean> {
  await session.run(parts.release, { timeoutMs: 30_000 });
  await step.catch(() => {});
  return ((await session.run(parts.sum)) as Tensor).number() === 1;
}

describe('a step delayed on the ps while its worker is lost', { timeout: 120_000 }, () => {
  test('after the check of its lease is counted if and only if it is applied', async () => {
    await begin('begun');
    server.lost(WORKER, 1);
    await sleep(DELAY_MS);
    const isApplied = await release();
    await server.settled();
    expect({ isApplied, consumed: host.state.consumed }).toEqual({ isApplied: true, consumed: 2 });
  });

  test('after the check of its lease and aborted there is not applied and releases the lock', async () => {
    await begin('begun');
    server.lost(WORKER, 1);
    await session.close();
    await server.settled(AbortSignal.timeout(30_000));
    await using reader = open(parts.graph);
    const applied = ((await reader.run(parts.sum)) as Tensor).number();
    expect({ applied, consumed: host.state.consumed }).toEqual({ applied: 0, consumed: 0 });
  });

  test('during its updates is awaited, and not treated as partially applied', async () => {
    await begin('ended');
    server.lost(WORKER, 1);
    expect(await isSettled(server.settled())).toBe(false);
    expect(await release()).toBe(true);
    await server.settled();
    expect(host.state.consumed).toBe(2);
    expect(lines).toEqual([]);
  });
});

test.each(['begun', 'ended'] as const)(
  'a pause waits until an admitted step is applied, delayed before it has %s',
  { timeout: 120_000 },
  async (before) => {
    await begin(before);
    const paused = server.pause();
    expect(await isSettled(paused)).toBe(false);
    expect(await release()).toBe(true);
    await paused;
  },
);

test('a step of an earlier chief is refused, although its lease has a higher id', {
  timeout: 120_000,
}, async () => {
  await begin('begun');
  await release();
  await server.pause();
  const stepOf = ({ id, term }: Lease) =>
    session.run(parts.train, {
      feeds: new Map([
        [parts.position, Tensor.of(BigInt64Array.of(BigInt(id), 0n, 2n, BigInt(term)))],
        [parts.slot, Tensor.of(0n)],
      ]),
      timeoutMs: 60_000,
    });
  // The earlier chief restored several times, or its clock was ahead.
  const earlier = new LedgerHost(PLAN, { term: 7 });
  for (let i = 0; i < 3; i++) earlier.reset();
  const old = (await earlier.next(WORKER)) as Lease;
  const successor = new LedgerHost(PLAN, { term: 8 });
  await keeper.open(WORKER, successor.fence);
  const lease = (await successor.next(WORKER)) as Lease;
  expect(old.id).toBeGreaterThan(lease.id);
  // Neither step blocks before its mark.
  for (let i = 0; i < 2; i++) await session.run(parts.release, { timeoutMs: 30_000 });
  expect(isVoidStep(await stepOf(old).catch((error: unknown) => error))).toBe(true);
  await stepOf(lease);
});
