/** Plans: the same values as in one process, every op with an effect once, and no stage before its inputs. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { described } from '../../../../test/described.js';
import { VERSIONS } from '../../../base/bytes/versions.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { Session } from '../../../tensorflow/session/session.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { Hosts, PLACEMENT, SELF } from '../testing/hosts.js';
import { randomGraph } from '../testing/random-graph.js';
import { partition } from './partition.js';
import type { Plan } from './plan.js';

let hosts: Hosts;
beforeEach(() => {
  hosts = new Hosts();
});
afterEach(() => hosts.close());

/** SHOAL_SEEDS=1000 for a longer search. */
const SEEDS = Number(process.env.SHOAL_SEEDS ?? 12);
const PS = [0, 1, 2].map((task) => `/job:ps/task:${task}`);
const numbers = (tensors: readonly Tensor[]) => tensors.map((tensor) => tensor.toArray());

describe.each([
  ['in memory', undefined],
  ['by messages', VERSIONS.stages.newest],
  ['by messages of version 1', 1],
])('random graphs with tensors passed %s', (_, version) => {
  for (let tasks = 1; tasks <= 4; tasks++) {
    it(`over ${tasks} tasks give the values of one process`, async () => {
      if (version) await hosts.connect(PS, version);
      for (let seed = 1; seed <= SEEDS; seed++) {
        const devices = [SELF, ...PS.slice(0, tasks - 1)];
        const scope = `t${tasks}s${seed}`;
        // Large tensors are read late, and passed without a copy.
        const size = seed % 6 === 0 ? 8192 : 2;
        const split = randomGraph(seed, devices, scope, size);
        const whole = randomGraph(seed, [''], scope, size);
        const expected = await runAlone(whole);
        const session = hosts.session(split.graph);
        await session.run(split.init);
        const { fetches, targets, feeds } = split;
        const plan = partition(
          split.graph,
          { fetches: [...new Set(fetches)], targets, feeds: feeds.map(([output]) => output) },
          PLACEMENT,
        );
        checkOrder(plan);
        const got = (await session.run(fetches, { targets, feeds })) as Tensor[];
        expect([seed, numbers(got)]).toEqual([seed, expected.fetched]);
        const state = (await session.run(split.reads)) as Tensor[];
        expect([seed, numbers(state)]).toEqual([seed, expected.state]);
        split.graph.dispose();
        whole.graph.dispose();
        expect([seed, hosts.kept]).toEqual([seed, 0]);
      }
    });
  }
});

async function runAlone({ graph, init, fetches, targets, feeds, reads }: ReturnType<typeof randomGraph>) {
  await using session = Session.open({ graph });
  await session.run(init);
  const fetched = numbers((await session.run(fetches, { targets, feeds })) as Tensor[]);
  return { fetched, state: numbers((await session.run(reads)) as Tensor[]) };
}

/** Every tensor is made once, by a stage that its users wait for; every op is in one stage. */
function checkOrder({ stages, feeds, tensors, fetches }: Plan): void {
  const maker = new Map<number, number>();
  stages.forEach(({ outputs, inputs, after }, at) => {
    for (const tensor of outputs) {
      expect(maker.has(tensor)).toBe(false);
      maker.set(tensor, at);
    }
    for (const earlier of after) expect(earlier).toBeLessThan(at);
    for (const tensor of inputs) if (tensor >= feeds) expect(after).toContain(maker.get(tensor));
  });
  for (let tensor = feeds; tensor < tensors; tensor++) expect(maker.has(tensor)).toBe(true);
  for (const tensor of fetches) expect(tensor < feeds || maker.has(tensor)).toBe(true);
  const ops = stages.flatMap((stage) => stage.ops);
  expect(new Set(ops).size).toBe(ops.length);
}

const plan = (graph: Graph, fetches: Output[], targets: Operation[] = []) =>
  partition(graph, { fetches, targets, feeds: [] }, PLACEMENT);

function variable(graph: Graph, name: string, device: string): Output {
  return graph.device(device, () => {
    const handle = raw.varHandleOp({ dtype: 'float32', shape: [2], sharedName: name });
    return raw.readVariableOp(handle, { dtype: 'float32' });
  });
}

describe('a plan', () => {
  it('is the same for every worker', () => {
    const [a, b] = [0, 1].map((index) => {
      const self = `/job:worker/task:${index}`;
      const graph = new Graph();
      const y = graph.asDefault(() =>
        graph.device(self, () => raw.tanh(raw.identity(variable(graph, 'w', '/job:ps/task:0')))),
      );
      return partition(
        graph,
        { fetches: [y], targets: [], feeds: [] },
        { self, taskOf: ({ job, task }) => `/job:${job}/task:${task}` },
      );
    });
    expect(a?.stages.length).toBe(2);
    expect(a?.stages.map(({ hash }) => hash)).toEqual(b?.stages.map(({ hash }) => hash));
  });

  it('runs an op that waits on another task in a stage of its own', () => {
    const graph = new Graph();
    const result = graph.asDefault(() =>
      graph.device('/job:ps/task:0', () => {
        const queue = raw.fifoQueueV2({ componentTypes: ['float32'], shapes: [[2]], sharedName: 'q' });
        const [element] = raw.queueDequeueV2(queue, { componentTypes: ['float32'] });
        return raw.tanh(element as Output);
      }),
    );
    expect(plan(graph, [result]).stages.map(({ ops, spec }) => [spec.waits, ops.length])).toEqual([
      [true, 1],
      [false, 1],
    ]);
  });

  it('runs an op where its handle is, whatever the device of the op', () => {
    const graph = new Graph();
    const sum = graph.asDefault(() => {
      const handle = graph.device('/job:ps/task:0', () =>
        raw.varHandleOp({ dtype: 'float32', shape: [1], sharedName: 'h', name: 'h' }),
      );
      return graph.device(SELF, () => {
        const add = raw.assignAddVariableOp(handle, constant(graph, [1], 'float32'), { name: 'add' });
        return graph.controlDependencies([add], () =>
          raw.readVariableOp(handle, { dtype: 'float32', name: 'r' }),
        );
      });
    });
    expect(plan(graph, [sum]).stages.map(({ task, ops }) => [task, ops])).toEqual([
      ['/job:ps/task:0', ['add', 'r']],
    ]);
  });

  it('reads a file on the disk of the task of the op', () => {
    const graph = new Graph();
    const upper = graph.asDefault(() => {
      const name = graph.op('Const', [], { dtype: 'string', value: Tensor.of('a-file') }).output();
      const text = graph.device('/job:ps/task:0', () =>
        raw.readFile(name as Output<'string'>, { name: 'read' }),
      );
      return raw.stringUpper(text, { name: 'upper' });
    });
    expect(plan(graph, [upper]).stages.map(({ task, ops }) => [task, ops])).toEqual([
      ['/job:ps/task:0', ['read']],
      [SELF, ['upper']],
    ]);
  });

  it('rejects users of a handle without a device that are on two tasks', () => {
    const graph = new Graph();
    const reads = graph.asDefault(() => {
      const handle = raw.varHandleOp({ dtype: 'float32', shape: [1], sharedName: 'h', name: 'h' });
      return [0, 1].map((task) =>
        graph.device(`/job:ps/task:${task}`, () =>
          raw.readVariableOp(handle, { dtype: 'float32', name: `r${task}` }),
        ),
      );
    });
    expect(() => plan(graph, reads)).toThrow(/'r0' is on \/job:ps\/task:0 and 'r1' on \/job:ps\/task:1/);
  });

  it('rejects an op with handles of two tasks, and names them', () => {
    const graph = new Graph();
    const apply = graph.asDefault(() => {
      const [a, b] = [0, 1].map((task) =>
        graph.device(`/job:ps/task:${task}`, () =>
          raw.varHandleOp({ dtype: 'float32', shape: [1], sharedName: `h${task}`, name: `h${task}` }),
        ),
      ) as [Output<'resource'>, Output<'resource'>];
      const one = constant(graph, [1], 'float32');
      return raw.resourceApplyAdagrad(a, b, raw.sum(one, constant(graph, [0], 'int32')), one);
    });
    expect(() => plan(graph, [], [apply])).toThrow(
      /'h0' is on \/job:ps\/task:0 and 'h1' on \/job:ps\/task:1/,
    );
  });

  it('rejects a conditional over two tasks, names the op and the engine that can run it', () => {
    const graph = new Graph();
    const result = graph.asDefault(() => {
      const data = raw.placeholder({ dtype: 'float32', shape: [] });
      const isTrue = raw.greater(data, data);
      const { outputFalse, outputTrue } = raw.switchOp(data, isTrue);
      const elsewhere = graph.device('/job:ps/task:0', () => raw.tanh(outputTrue, { name: 'elsewhere' }));
      return raw.merge([outputFalse, elsewhere]).output;
    });
    expect(() => plan(graph, [result])).toThrow(
      described(/cannot divide this run at .*elsewhere.*engine: 'grpc'/s),
    );
  });

  it('keeps a conditional on one task in one stage', async () => {
    const graph = new Graph();
    const { data, result } = graph.asDefault(() => {
      const data = raw.placeholder({ dtype: 'float32', shape: [2] });
      const w = variable(graph, 'conditional', '/job:ps/task:0');
      const isTrue = raw.greater(
        raw.sum(w, constant(graph, [0], 'int32')),
        raw.sum(data, constant(graph, [0], 'int32')),
      );
      const { outputFalse, outputTrue } = raw.switchOp(data, isTrue);
      return { data, result: raw.merge([raw.neg(outputFalse), raw.tanh(outputTrue)]).output };
    });
    const init = graph.asDefault(() =>
      graph.device('/job:ps/task:0', () =>
        raw.assignVariableOp(
          raw.varHandleOp({ dtype: 'float32', shape: [2], sharedName: 'conditional' }),
          constant(graph, [1, 1], 'float32'),
        ),
      ),
    );
    const session = hosts.session(graph);
    await session.run(init);
    const run = async (value: number[]) =>
      (await session.run(result, { feeds: [[data, value]] })).toArray() as number[];
    expect(await run([5, 6])).toEqual([-5, -6]);
    expect((await run([0, 1]))[1]).toBeCloseTo(Math.tanh(1));
  });

  it('waits for what a NoOp waits for', () => {
    const graph = new Graph();
    const done = graph.asDefault(() => {
      const writes = [0, 1].map((task) =>
        graph.device(`/job:ps/task:${task}`, () => {
          const handle = raw.varHandleOp({
            dtype: 'float32',
            shape: [2],
            sharedName: `w${task}`,
            name: `w${task}`,
          });
          return raw.assignAddVariableOp(handle, constant(graph, [1, 1], 'float32'), { name: `add${task}` });
        }),
      );
      const group = graph.controlDependencies(writes, () => raw.noOp());
      return graph.controlDependencies([group], () => variable(graph, 'w0', '/job:ps/task:0'));
    });
    const { stages } = plan(graph, [done]);
    expect(stages.map(({ task, after }) => [task, after])).toEqual([
      ['/job:ps/task:1', []],
      ['/job:ps/task:0', [0]],
    ]);
  });
});

describe('tensors between the stages of a task', () => {
  const PS0 = '/job:ps/task:0';
  const LARGE = [128, 64];

  /** A variable on the ps, and a factor that arrives from the worker, so that the ps has two stages. */
  function build() {
    const handle = graph.device(PS0, () =>
      raw.varHandleOp({ dtype: 'float32', shape: LARGE, sharedName: 'kept', name: 'kept' }),
    );
    const init = graph.device(PS0, () =>
      raw.assignVariableOp(handle, raw.fill(Tensor.of(LARGE, { dtype: 'int32' }), Tensor.of(2))),
    );
    const small = graph.device(PS0, () =>
      raw.fill(Tensor.of([2], { dtype: 'int32' }), raw.placeholderWithDefault(Tensor.of(3), { shape: [] })),
    );
    const factor = raw.tanh(small);
    const read = (name: string) => raw.readVariableOp(handle, { dtype: 'float32', name });
    return { handle, init, factor, read };
  }
  let graph: Graph;
  beforeEach(() => {
    graph = new Graph();
  });
  const sum = (value: Output) =>
    raw.sum(value as Output<'float32'>, Tensor.of([0, 1], { dtype: 'int32' }), { keepDims: true });

  const total = (vector: Output) => raw.sum(vector as Output<'float32'>, Tensor.of([0], { dtype: 'int32' }));

  it('a large variable is read beside its only users', () => {
    const value = graph.asDefault(() => {
      const { factor, read } = build();
      return graph.device(PS0, () => raw.mul(read('r'), total(factor), { name: 'scaled' }));
    });
    const last = plan(graph, [value]).stages.at(-1);
    expect([last?.task, last?.ops]).toEqual([PS0, expect.arrayContaining(['r', 'scaled'])]);
    expect(last?.present).toEqual([]);
  });

  it('a read stays before a write that does not depend on it', () => {
    const { value, write } = graph.asDefault(() => {
      const { handle, factor, read } = build();
      return graph.device(PS0, () => ({
        value: raw.mul(read('r'), total(factor), { name: 'scaled' }),
        write: raw.assignAddVariableOp(handle, raw.fill(Tensor.of(LARGE, { dtype: 'int32' }), Tensor.of(1))),
      }));
    });
    const { stages } = plan(graph, [value], [write]);
    expect(stages[0]?.ops).toContain('r');
  });

  it('a read keeps its value when a write that is not ordered with it comes before its user', async () => {
    await hosts.connect([PS0]);
    const { init, value, write } = graph.asDefault(() => {
      const { handle, init, read } = build();
      // The factor comes from an op of the worker that takes long; the update does not wait for it.
      const size = Tensor.of([3000, 1000], { dtype: 'int32' });
      const noise = raw.tanh(raw.randomUniform(size, { dtype: 'float32' }));
      const factor = raw.add(raw.mul(sum(noise), Tensor.of(0)), Tensor.of(1));
      const gradient = raw.identity(read('forward'));
      return {
        init,
        ...graph.device(PS0, () => ({
          write: raw.assignAddVariableOp(handle, gradient),
          value: sum(raw.mul(read('own'), factor, { name: 'metric' })),
        })),
      };
    });
    const session = hosts.session(graph);
    await session.run(init);
    const got = await session.run(value, { targets: [write] });
    expect(got.toArray()).toEqual([[2 * 128 * 64]]);
  });

  it('a read whose users run early too runs with them: nothing would be kept', () => {
    const value = graph.asDefault(() => {
      const { read } = build();
      const rows = graph.device('/job:ps/task:1', () => raw.tanh(raw.tanh(read('forward'))));
      const loss = graph.device(PS0, () => sum(read('own')));
      return graph.device(SELF, () => raw.add(sum(rows), loss));
    });
    const { stages } = plan(graph, [value]);
    expect(stages.filter(({ task }) => task === PS0)).toHaveLength(1);
  });

  it('stages that may run in any order share a tensor of another task', async () => {
    await hosts.connect(PS);
    const [ps0, ps1] = PS as [string, string];
    const { fed, fetches } = graph.asDefault(() => {
      const on = graph.device.bind(graph);
      const fed = raw.placeholder({ dtype: 'float32', shape: [2] });
      const shared = on(SELF, () => raw.tanh(fed));
      const a = on(ps0, () => raw.sin(shared));
      const b = on(ps0, () =>
        raw.mul(
          shared,
          on(ps1, () => raw.cos(shared)),
        ),
      );
      const c = on(ps0, () =>
        raw.addV2(
          on(ps1, () => raw.exp(a)),
          shared,
        ),
      );
      const far = on(ps1, () => raw.tanh(on(ps0, () => raw.sin(on(ps1, () => raw.exp(b))))));
      const d = on(ps0, () => raw.addV2(far, shared));
      return { fed, fetches: [c, d] };
    });
    const session = hosts.session(graph);
    for (let i = 0; i < 10; i++) {
      const feeds: [Output, Tensor][] = [[fed, Tensor.of([1, 2], { dtype: 'float32' })]];
      await session.run(fetches, { feeds });
    }
    expect(hosts.kept).toBe(0);
  });

  it('what the worker and a later stage of the ps need is sent once, and kept', () => {
    const fetches = graph.asDefault(() => {
      const { factor, read } = build();
      const value = read('r');
      const scaled = graph.device(PS0, () => sum(raw.mul(value, total(factor))));
      return [raw.tanh(value), scaled];
    });
    const made = plan(graph, fetches);
    const maker = made.stages.find(({ ops }) => ops.includes('r'));
    const user = made.stages.at(-1);
    expect(maker?.keeps).toEqual([{ at: expect.any(Number), tensor: user?.present[0]?.tensor, uses: 1 }]);
    expect(maker?.withheld).toEqual([]);
  });

  it('nothing is kept after a run, whether it succeeds, fails, or its connection closes', async () => {
    await hosts.connect([PS0]);
    const { init, good, bad } = graph.asDefault(() => {
      const { init, factor, read } = build();
      const value = read('r');
      const worker = raw.tanh(value);
      const shape = raw.cast(factor, { dstT: 'int32' });
      return {
        init,
        good: [worker, graph.device(PS0, () => sum(raw.mul(value, total(factor))))],
        // A shape of the wrong size: fails in the second stage of the ps.
        bad: [worker, graph.device(PS0, () => raw.reshape(value, shape))],
      };
    });
    const session = hosts.session(graph);
    await session.run(init);
    await session.run(good);
    expect(hosts.kept).toBe(0);
    await expect(session.run(bad)).rejects.toMatchObject({ code: 'SHOAL_TF_INVALID_ARGUMENT' });
    // Its message follows those of the run.
    await session.run(good);
    expect(hosts.kept).toBe(0);
    const broken = session.run(good);
    hosts.disconnect();
    await expect(broken).rejects.toMatchObject({ code: 'SHOAL_TF_UNAVAILABLE' });
    await expect.poll(() => hosts.kept).toBe(0);
  });
});

function constant(graph: Graph, values: number[], dtype: 'float32' | 'int32'): Output {
  return graph.op('Const', [], { dtype, value: Tensor.of(values, { dtype }) }).output();
}
