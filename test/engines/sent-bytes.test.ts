/** The bytes that a run sends between tasks, against what TensorFlow's own partitioner sends in the same run. */
import { toBinary } from '@bufbuild/protobuf';
import { beforeAll, expect, it } from 'vitest';
import { GraphDefSchema } from '../../src/base/proto/generated/graph_pb.js';
import { replicaDeviceSetter } from '../../src/distributed/cluster/spec/device-setter.js';
import { tensorBytes } from '../../src/distributed/engine/partition/lateness.js';
import { NeededOps, type RunRequest } from '../../src/distributed/engine/partition/needed.js';
import { partition } from '../../src/distributed/engine/partition/partition.js';
import { placeOps } from '../../src/distributed/engine/partition/placement.js';
import type { Plan } from '../../src/distributed/engine/partition/plan.js';
import { PLACEMENT, SELF } from '../../src/distributed/engine/testing/hosts.js';
import { tf } from '../../src/index.js';
import { Graph } from '../../src/tensorflow/graph/graph.js';
import type { Operation, Output } from '../../src/tensorflow/graph/operation.js';
import type { Optimizer } from '../../src/tensorflow/optimizers/optimizer.js';
import { askPython } from '../python.js';

const PS = '/job:ps/task:0';
const TASKS = [SELF, PS, '/job:ps/task:1'];
const [ROWS, COLUMNS] = [512, 256];
/** Ids, factors and the global step: a scalar may cross twice. */
const SMALL = 4096;

type Wanted = Pick<RunRequest, 'fetches' | 'targets'>;
const wanted = (targets: readonly Operation[], fetches: readonly Output[] = []): Wanted => ({
  fetches,
  targets,
});

const inputs = () => tf.device(SELF, () => tf.randomUniform([32, ROWS]));
const table = (name: string) =>
  tf.variable(name, { shape: [ROWS, COLUMNS], initializer: tf.zerosInitializer() });
const lossOf = (w: ReturnType<typeof table>) => inputs().matMul(w).square().mean();
const globalStep = () => tf.getOrCreateGlobalStep();

/** A training step of a dense layer with this optimizer, and with what `more` adds on the ps. */
const trained = (
  optimizer: () => Optimizer,
  more: (w: ReturnType<typeof table>, step: Operation) => Operation = (_, step) => step,
) => {
  const w = table('w');
  const step = optimizer().minimize(lossOf(w), { globalStep: globalStep() });
  return wanted([more(w, step)]);
};

/** Decay of the weights by a factor that the worker computes, after the step. */
const withDecay = (w: ReturnType<typeof table>, step: Operation): Operation =>
  tf.controlDependencies([step], () => {
    const rate = tf.device(SELF, () => tf.randomUniform([]));
    return tf.device(PS, () => w.assignSub(w.read().mul(rate)));
  });

/** Gradients that are clipped where the variable is. */
const clipped = (optimizer: Optimizer) => wanted([clippedStep(table('w'), optimizer)]);
const clippedStep = (w: ReturnType<typeof table>, optimizer: Optimizer) => {
  const limited = optimizer
    .computeGradients(lossOf(w), { varList: [w] })
    .map(
      ([gradient, variable]) =>
        [tf.device(PS, () => tf.clipByNorm(gradient as Output, 1)), variable] as const,
    );
  return optimizer.applyGradients(limited, { globalStep: globalStep() });
};

const row = (index: (w: ReturnType<typeof table>) => Output) => {
  const w = table('w');
  return wanted([], [tf.device(PS, () => index(w))]);
};
const chosen = () => tf.device(SELF, () => tf.randomUniform([], 0, ROWS, { dtype: 'int32' }));
const zero = () => tf.device(SELF, () => tf.constant(Int32Array.of(0)).reshape([]));
const ids = () => tf.device(SELF, () => tf.randomUniform([64], 0, ROWS, { dtype: 'int64' }));

const CASES: Readonly<Record<string, () => Wanted>> = {
  'gradient descent': () => trained(() => tf.train.sgd(0.1)),
  'gradient descent with decay on the ps': () => trained(() => tf.train.sgd(0.1), withDecay),
  'momentum with decay on the ps': () => trained(() => tf.train.momentum(0.1, 0.9), withDecay),
  'Adagrad with decay on the ps': () => trained(() => tf.train.adagrad(0.1), withDecay),
  'Adadelta with decay on the ps': () => trained(() => tf.train.adadelta(0.1), withDecay),
  'Adam with decay on the ps': () => trained(() => tf.train.adam(0.1), withDecay),
  AdamW: () => trained(() => tf.train.adamw(0.1)),
  'RMSProp with decay on the ps': () => trained(() => tf.train.rmsprop(0.1), withDecay),
  'FTRL with decay on the ps': () => trained(() => tf.train.ftrl(0.1), withDecay),
  'gradients clipped on the ps': () => clipped(tf.train.sgd(0.1)),
  'Adam with gradients clipped on the ps': () => clipped(tf.train.adam(0.1)),
  'gradients clipped on the ps, with decay': () => {
    const w = table('w');
    return wanted([withDecay(w, clippedStep(w, tf.train.momentum(0.1, 0.9)))]);
  },
  'proximal Adagrad with decay on the ps': () => trained(() => tf.train.proximalAdagrad(0.1), withDecay),
  'a metric of the weights on the ps': () => {
    const w = table('w');
    const step = tf.train.sgd(0.1).minimize(lossOf(w), { globalStep: globalStep() });
    const scale = tf.device(SELF, () => tf.randomUniform([]));
    const { value, updateOp } = tf.device(PS, () => tf.metrics.mean(w.read().mul(scale)));
    return wanted([step], [value, updateOp]);
  },
  'moving averages': () =>
    trained(
      () => tf.train.sgd(0.1),
      (w, step) => {
        const average = new tf.train.ExponentialMovingAverage(0.99, { numUpdates: globalStep().read() });
        return tf.controlDependencies([step], () => average.apply([w]));
      },
    ),
  'moving averages beside the step': () => {
    const w = table('w');
    const step = tf.train.sgd(0.1).minimize(lossOf(w), { globalStep: globalStep() });
    const rate = tf.device(SELF, () => tf.randomUniform([]));
    const average = tf.device(PS, () =>
      tf.variable('average', { shape: [ROWS, COLUMNS], initializer: tf.zerosInitializer() }),
    );
    return wanted([step, tf.device(PS, () => average.assignSub(average.read().sub(w.read()).mul(rate)))]);
  },
  'a row of a variable, sliced on the ps': () =>
    row((w) => tf.slice(w.read(), tf.stack([chosen(), zero()]), [1, COLUMNS])),
  'a gather from a value that was read': () => row((w) => tf.gather(w.read().mul(2), ids())),
  'a gather from a variable': () => row((w) => tf.gather(w, ids())),
  'a gather of single values from a variable': () =>
    row((w) => tf.gatherNd(w, tf.stack([ids(), ids().mod(COLUMNS)], { axis: 1 }))),
  'a norm of the weights that scales them': () => {
    const w = table('w');
    const limit = tf.device(SELF, () => tf.randomUniform([]));
    return wanted([
      tf.device(PS, () => {
        const value = w.read();
        return w.assign(value.mul(limit.div(value.square().sum().sqrt().add(1))));
      }),
    ]);
  },
  'an embedding with a regularizer': () => {
    const w = table('w');
    const rows = tf.nn.embeddingLookup(w, ids());
    const penalty = tf.device(PS, () => tf.l2Loss(w.read()).mul(0.01));
    const loss = rows.square().mean().add(penalty);
    return wanted([tf.train.adagrad(0.1).minimize(loss, { globalStep: globalStep() })]);
  },
  'partitioned variables': () => {
    const w = tf.variable('w', {
      shape: [ROWS, COLUMNS],
      initializer: tf.zerosInitializer(),
      partitioner: tf.fixedSizePartitioner(2),
    }) as unknown as ReturnType<typeof table>;
    return wanted([tf.train.adam(0.1).minimize(lossOf(w), { globalStep: globalStep() })]);
  },
  'batch norm statistics': () => {
    const w = table('w');
    const { mean, variance } = tf.moments(inputs().matMul(w), [0]);
    const averages = ['mean', 'variance'].map((name) =>
      tf.variable(name, { shape: [COLUMNS], initializer: tf.zerosInitializer(), trainable: false }),
    );
    const updates = [mean, variance].map((value, at) => {
      const average = averages[at] as ReturnType<typeof table>;
      return tf.device(average.device, () => average.assignSub(average.read().sub(value).mul(0.01)));
    });
    const step = tf.train.sgd(0.1).minimize(mean.square().mean(), { globalStep: globalStep() });
    return wanted([step, ...updates]);
  },
  'a large update that two later stages use': () => {
    const [a, b] = [table('a'), tf.device(PS, () => table('b'))];
    const value = tf.device(SELF, () => tf.randomUniform([ROWS, COLUMNS]));
    const first = tf.device(PS, () => a.assignAdd(value));
    const token = tf.device(SELF, () => tf.controlDependencies([first], () => tf.randomUniform([])));
    return wanted([tf.device(PS, () => b.assignAdd(value.mul(token)))]);
  },
};

interface Built {
  readonly graph: Graph;
  readonly request: RunRequest;
}

const NAMES = Object.keys(CASES);
const built = new Map<string, Built>();
const asked = new Map<string, readonly (readonly [tensor: string, task: string])[]>();

beforeAll(async () => {
  for (const [name, build] of Object.entries(CASES)) built.set(name, buildCase(build));
  const answers = await askPython<(readonly [string, string])[][]>(
    new URL('./sent-tensors.py', import.meta.url),
    [...built.values()].map(questionOf),
  );
  for (const [i, name] of NAMES.entries()) asked.set(name, answers[i] ?? []);
});

it.each(NAMES)('%s: no more than TensorFlow sends', (name) => {
  const { graph, request } = built.get(name) as Built;
  const sent = sentBytes(partition(graph, request, PLACEMENT), graph);
  const expected = tensorflowBytes(graph, asked.get(name) ?? []);
  expect(expected).toBeGreaterThan(0);
  expect(sent, `${sent} bytes; TensorFlow sends ${expected}`).toBeLessThanOrEqual(1.1 * expected + SMALL);
});

function buildCase(build: () => Wanted): Built {
  const graph = new Graph();
  const wanted = graph.asDefault(() =>
    tf.device(replicaDeviceSetter({ psTasks: 2, workerDevice: SELF }), build),
  );
  return { graph, request: { ...wanted, feeds: [] } };
}

/** The run for Python's TensorFlow, with each op on the task on which the direct engine runs it. */
function questionOf({ graph, request: { fetches, targets } }: Built): unknown {
  const init = graph.asDefault(() => [tf.globalVariablesInitializer(), tf.localVariablesInitializer()]);
  const definition = graph.toGraphDef();
  const request: RunRequest = { fetches, targets: [...targets, ...init], feeds: [] };
  const taskOf = placeOps(new NeededOps(request), PLACEMENT);
  for (const node of definition.node) node.device = taskOf.get(graph.operation(node.name)) ?? '';
  return {
    graph: Buffer.from(toBinary(GraphDefSchema, definition)).toString('base64'),
    tasks: TASKS,
    init: init.map(({ name }) => name),
    fetches: fetches.map(({ name }) => name),
    targets: targets.map(({ name }) => name),
  };
}

/** What a plan sends over connections. */
function sentBytes({ stages }: Plan, graph: Graph): number {
  const sizes = new Map<number, number>();
  for (const { outputs, spec } of stages)
    for (const [i, tensor] of outputs.entries()) {
      const [, name = '', index] = /^(.*):(\d+)$/.exec(spec.outputs[i] ?? '') ?? [];
      sizes.set(tensor, tensorBytes(graph.operation(name).output(Number(index))));
    }
  let sum = 0;
  for (const { task, inputs, outputs, present, withheld } of stages) {
    if (task === SELF) continue;
    const here = new Set(present.map(({ at }) => at));
    for (const [at, tensor] of inputs.entries()) if (!here.has(at)) sum += sizes.get(tensor) as number;
    for (const [at, tensor] of outputs.entries())
      if (!withheld.includes(at)) sum += sizes.get(tensor) as number;
  }
  return sum;
}

/** The size of what TensorFlow sends. It sends constants as well, which the direct engine copies: they do not count. */
function tensorflowBytes(graph: Graph, sends: readonly (readonly [string, string])[]): number {
  const outputs = sends.flatMap(([name]) => (isInGraph(graph, name) ? [graph.output(name)] : []));
  return outputs
    .filter(({ op }) => op.type !== 'Const')
    .map(tensorBytes)
    .reduce((a, b) => a + b, 0);
}

/** TensorFlow adds constants of its own, to send that an op has run. */
const isInGraph = (graph: Graph, tensor: string): boolean => graph.hasOperation(tensor.replace(/:\d+$/, ''));
