/** Workers of synchronous training that are lost or idle: sessions on one TensorFlow server, and a simulated membership. */
import { afterEach, expect, it } from 'vitest';
import { EngineCluster } from '../../../../../test/engines/engine-cluster.js';
import { sleep } from '../../../../base/async/deadline.js';
import { isShoalError, ShoalError } from '../../../../base/errors/errors.js';
import { TensorFlowServer } from '../../../../distributed/cluster/grpc/tensorflow-server.js';
import type { ClusterSession } from '../../../../distributed/cluster/runtime/cluster-session.js';
import type { EngineKind } from '../../../../distributed/cluster/spec/config.js';
import { Graph } from '../../../../tensorflow/graph/graph.js';
import { device } from '../../../../tensorflow/graph/scopes.js';
import { constant } from '../../../../tensorflow/ops/creation.js';
import * as raw from '../../../../tensorflow/ops/generated/index.js';
import { GradientDescentOptimizer } from '../../../../tensorflow/optimizers/rules/gradient-descent.js';
import { SyncReplicasOptimizer } from '../../../../tensorflow/optimizers/sync/sync-replicas.js';
import { isEndOfTokens } from '../../../../tensorflow/optimizers/sync/sync-tokens.js';
import { Session } from '../../../../tensorflow/session/session.js';
import { Tensor } from '../../../../tensorflow/tensor/tensor.js';
import { createGlobalStep } from '../../../../tensorflow/variables/global-step.js';
import { variable } from '../../../../tensorflow/variables/variable-scope.js';
import { Coordinator } from '../../recovery/coordinator.js';
import type { Lead } from '../../recovery/steps/last-steps.js';
import type { TrainingRunner } from '../../task/training-runner.js';
import { SyncReplicasHook } from './sync-replicas.js';

const WORKERS = 3;
const idOf = (worker: number) => `/job:worker/task:${worker}`;

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

interface TrainingOptions {
  readonly required?: number;
  readonly stallMs?: number;
  /** Of a cluster with a ps; default: sessions on one TensorFlow server. */
  readonly engine?: EngineKind;
  readonly deterministic?: boolean;
}

/** Three workers that train, the first of which is the chief. */
async function training({
  required = WORKERS,
  stallMs = 60_000,
  engine,
  deterministic = false,
}: TrainingOptions = {}) {
  const cluster = engine && (await EngineCluster.start(engine, { ps: 1, workers: WORKERS }));
  if (cluster) ends.push(() => cluster.close());
  const target = cluster ? '' : (await TensorFlowServer.start({ host: '127.0.0.1', port: 0 })).target;
  const onPs = <T>(body: () => T): T => (cluster ? device('/job:ps/task:0', body) : body());
  const parts = Array.from({ length: WORKERS }, (_, workerIndex) => {
    const graph = new Graph();
    return graph.asDefault(() => {
      const globalStep = onPs(() => createGlobalStep());
      const w = onPs(() => variable('w', { shape: [], initializer: 0 }));
      const inner = new GradientDescentOptimizer(0.01);
      const optimizer = new SyncReplicasOptimizer(inner, {
        replicasToAggregate: required,
        totalNumReplicas: WORKERS,
        workerIndex,
        deterministic,
      });
      const loss = w.toOutput().sub(constant(1)).square();
      const trainOp = graph.nameScope(`worker_${workerIndex}`, () =>
        optimizer.minimize(loss, { globalStep }),
      );
      const stale = onPs(() => {
        const sharedName = 'w/grad_accum';
        const sum = raw.resourceConditionalAccumulator({ dtype: 'float32', shape: [], sharedName });
        return raw.resourceAccumulatorSetGlobalStep(sum, Tensor.of(2n ** 40n));
      });
      const takeOne = onPs(() => {
        const sharedName = `w/grad_accum${deterministic ? '/worker/1' : ''}`;
        const sum = raw.resourceConditionalAccumulator({ dtype: 'float32', shape: [], sharedName });
        const one = Tensor.of(1, { dtype: 'int32' });
        return raw.resourceAccumulatorTakeGradient(sum, one, { dtype: 'float32' });
      });
      return { graph, globalStep, w, optimizer, trainOp, stale, takeOne };
    });
  });
  const sessions = await Promise.all(
    parts.map(({ graph }, i) => cluster?.session(graph, i) ?? Session.create({ graph, target })),
  );
  const [chief] = parts as [(typeof parts)[0]];
  const session = sessions[0] as Pick<Session, 'run'>;
  await session.run([chief.globalStep.initializer, chief.w.initializer]);
  await session.run(chief.optimizer.resetOp);
  const statuses = parts.map(() => 'alive');
  let tell = (_: object) => {};
  let tellFinished = (_: string) => {};
  let lead: Lead | undefined;
  const finished = new Set<string>();
  let isWaiting = false;
  const server = {
    engine: { kind: engine ?? 'grpc' },
    finished: {
      has: ({ task }: { task: string }) => finished.has(task),
      onFinished: (listener: typeof tellFinished) => {
        tellFinished = listener;
        return () => {};
      },
    },
    checkpoints: {
      pauses: { pauseAt: () => {}, stopStepsBy: () => {} },
      lastSteps: {
        get isWaiting() {
          return isWaiting;
        },
        lead: (given: Lead) => {
          lead = given;
          return () => {};
        },
      },
    },
    task: {
      task: idOf(0),
      member: (id: string) => ({ task: id, status: statuses[Number(id.at(-1))] }),
      events: {
        on: (_: string, listener: typeof tell) => {
          tell = listener;
          return () => {};
        },
      },
    },
  };
  const recovered: unknown[] = [];
  let failure: ShoalError | undefined;
  const run: Session['run'] = async (fetches, options) => {
    const isStep = failure && typeof fetches === 'object' && 'syncOp' in (fetches as object);
    if (!isStep) return session.run(fetches, options);
    const thrown = failure;
    failure = undefined;
    await session.run(chief.takeOne);
    throw thrown;
  };
  const runner = {
    graph: chief.graph,
    run,
    server,
    recover:
      cluster &&
      (async (error: unknown) => {
        recovered.push(error);
        await hook.afterCreateSession(runner, coordinator);
      }),
    endRuns: engine === 'grpc' ? (why: string) => (sessions[0] as ClusterSession).renew(why) : undefined,
  } as unknown as TrainingRunner;
  const coordinator = new Coordinator({ log: () => {} });
  const stops = parts.map(() => new AbortController());
  ends.push(() => {
    coordinator.requestStop();
    for (const stop of stops) stop.abort();
  });
  for (const [i, { optimizer }] of parts.entries()) await sessions[i]?.run(optimizer.localStepInitOp);
  const lines: string[] = [];
  const log = (line: string) => lines.push(line);
  const hook = new SyncReplicasHook(chief.optimizer, { isChief: true, stallMs, log });
  let delayMs = 0;
  await hook.afterCreateSession(runner, coordinator);
  const train = async (i: number): Promise<unknown> => {
    const { signal } = stops[i] as AbortController;
    while (!signal.aborted) {
      await sleep(10);
      if (i === 1 && delayMs > 0) await sleep(delayMs);
      const failure = await sessions[i]?.run(parts[i]!.trainOp, { signal }).then(
        () => undefined,
        (error: unknown) => error,
      );
      if (isShoalError(failure, 'SHOAL_TF_OUT_OF_RANGE')) return failure;
    }
    return undefined;
  };
  const trainings = parts.map((_, i) => train(i));
  const step = async () => (await session.run(chief.globalStep)).number();
  return {
    /** Ends when that many more steps are made. */
    advances: async (steps: number) => {
      const from = await step();
      await expect.poll(step, { timeout: 20_000 }).toBeGreaterThanOrEqual(from + steps);
    },
    /** The ps drops all gradients from now on, as after a step that it alone has made. */
    dropGradients: () => session.run(chief.stale),
    /** Another run takes a gradient of worker 1. */
    takeGradient: () => session.run(chief.takeOne),
    /** The next step of the chief takes a gradient of worker 1, and fails. */
    failStep: (error: ShoalError) => {
      failure = error;
    },
    /** Worker 1 needs this much longer for a step. */
    delay: (ms: number) => {
      delayMs = ms;
    },
    /** The errors that began a recovery. */
    recovered,
    lines,
    /** The worker computes no gradients from now on. */
    stop: (i: number) => stops[i]?.abort(),
    /** The input of a worker ends: it reports that, or waits for the others if it is the chief. */
    finish: (i: number) => {
      stops[i]?.abort();
      if (i === 0) {
        isWaiting = true;
        lead?.onWaiting();
        return;
      }
      finished.add(idOf(i));
      tellFinished(idOf(i));
    },
    /** The chief ends the training of all workers. */
    end: () => hook.end(runner),
    /** The errors with which the loops of the workers have ended. */
    ended: () => Promise.all(trainings),
    steps: () => lead?.steps() ?? 0,
    lose: (i: number) => {
      statuses[i] = 'dead';
      tell({ type: 'lost', member: { task: idOf(i) } });
    },
  };
}

it.each([
  ['as many gradients as workers', WORKERS],
  ['more gradients than workers', 5],
])('two workers that are lost in one step are replaced by the third: %s', async (_, required) => {
  const cluster = await training({ required });
  await cluster.advances(5);
  for (const i of [1, 2]) cluster.stop(i);
  await sleep(500);
  for (const i of [1, 2]) {
    cluster.lose(i);
    await sleep(200);
  }
  await cluster.advances(20);
});

it('a worker that is alive and does not train delays one step, and the others compute its gradients then', async () => {
  const cluster = await training({ stallMs: 1000 });
  await cluster.advances(5);
  cluster.stop(1);
  // Each would take a second if every step had to wait.
  await cluster.advances(60);
});

it('a step starts again if gradients are dropped as stale', async () => {
  const cluster = await training({ stallMs: 1000, engine: 'direct' });
  await cluster.advances(5);
  await cluster.dropGradients();
  await cluster.advances(60);
});

it.each([
  ['direct', false],
  ['direct', true],
  ['grpc', true],
] as const)(
  'gradients that another run took are computed again: engine %s, deterministic %s',
  async (engine, deterministic) => {
    const cluster = await training({ stallMs: 1000, engine, deterministic });
    await cluster.advances(5);
    await cluster.takeGradient();
    await cluster.advances(20);
    if (!deterministic) return;
    expect(cluster.lines.join('\n')).toMatch(/step \d+ makes no progress: .*task:1 has added its gradients/);
    expect(cluster.recovered).toHaveLength(1);
  },
);

it.each([false, true])('a step that failed begins a recovery: deterministic %s', async (deterministic) => {
  const cluster = await training({ engine: 'direct', deterministic });
  await cluster.advances(5);
  const error = new ShoalError('SHOAL_TF_UNAVAILABLE', 'the connection is broken');
  cluster.failStep(error);
  await cluster.advances(20);
  expect(cluster.recovered).toEqual([error]);
});

it('a step that takes many looks, because a worker computes, is left alone', async () => {
  const cluster = await training({ stallMs: 1000, engine: 'direct', deterministic: true });
  await cluster.advances(5);
  cluster.delay(3000);
  await cluster.advances(2);
  expect(cluster.lines.join('\n')).not.toMatch(/no progress/);
  expect(cluster.lines.join('\n')).toMatch(
    /has taken \d+ s: it waits for the gradients of \/job:worker\/task:1/,
  );
  expect(cluster.recovered).toEqual([]);
});

it('the others continue when the input of the chief ends first', async () => {
  const cluster = await training();
  await cluster.advances(5);
  cluster.finish(0);
  const before = cluster.steps();
  await cluster.advances(20);
  expect(cluster.steps()).toBeGreaterThanOrEqual(before + 15);
});

it('the others continue without a delay when the input of a worker ends first', async () => {
  const cluster = await training();
  await cluster.advances(5);
  cluster.finish(1);
  cluster.finish(2);
  await cluster.advances(20);
});

it('no worker waits for a token after the end of training', async () => {
  const cluster = await training();
  await cluster.advances(5);
  cluster.finish(0);
  await cluster.advances(5);
  await cluster.end();
  const [chief, ...others] = await cluster.ended();
  expect(chief).toBeUndefined();
  expect(others.map(isEndOfTokens)).toEqual([true, true]);
});
