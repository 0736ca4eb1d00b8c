/** Monitored sessions in one process, with small real checkpoints. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askPython } from '../../../../test/python.js';
import { ShoalError } from '../../../base/errors/errors.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { GraphKeys } from '../../../tensorflow/variables/collections.js';
import { latestCheckpoint } from '../checkpoints/latest-checkpoint.js';
import { Scaffold } from '../core/scaffold.js';
import { SessionRunHook } from '../hooks/session-run-hook.js';
import { StopAtStepHook } from '../hooks/stop-at-step.js';
import { JsonSaver } from '../testing/json-saver.js';
import { type SmallModel, smallModel } from '../testing/small-model.js';
import { scalarsIn, Workspace } from '../testing/workspace.js';
import { type MonitoredTrainingOptions, MonitoredTrainingSession } from './monitored-training-session.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.make();
});
afterAll(() => space[Symbol.asyncDispose]());

const quiet = { log: () => {} };

function optionsOf(model: SmallModel, lastStep: number, more: Partial<MonitoredTrainingOptions> = {}) {
  return {
    graph: model.graph,
    hooks: [new StopAtStepHook({ lastStep }), ...(more.hooks ?? [])],
    ...quiet,
    ...Object.fromEntries(Object.entries(more).filter(([key]) => key !== 'hooks')),
  };
}

describe('a monitored session', () => {
  it('trains until the last step', async () => {
    const model = smallModel();
    await using session = await MonitoredTrainingSession(optionsOf(model, 20));
    const losses: number[] = [];
    let step = 0;
    while (!session.shouldStop()) {
      const [, loss] = await session.run([model.trainOp, model.loss]);
      losses.push(loss.number());
      step = (await session.rawSession.run(model.globalStep)).number();
    }
    expect(step).toBe(20);
    expect(losses).toHaveLength(20);
    expect(losses.at(-1)).toBeLessThan(losses[0] as number);
  });

  it('refuses a run after the end', async () => {
    const model = smallModel();
    await using session = await MonitoredTrainingSession(optionsOf(model, 1));
    await session.run(model.trainOp);
    expect(session.shouldStop()).toBe(true);
    await expect(session.run(model.trainOp)).rejects.toThrow(/after the end of training/);
  });

  it('saves at the start and the end, and resumes from there', async () => {
    const checkpointDir = space.path();
    const train = async (lastStep: number) => {
      const model = smallModel();
      const saver = new JsonSaver(model.graph);
      let runs = 0;
      const options = optionsOf(model, lastStep, { checkpointDir, scaffold: new Scaffold({ saver }) });
      await MonitoredTrainingSession(options, async (session) => {
        while (!session.shouldStop()) {
          await session.run(model.trainOp);
          runs += 1;
        }
      });
      const short = (paths: string[]) => paths.map((path) => path.replace(/.*-/, ''));
      return { runs, saved: short(saver.saved), restored: short(saver.restored) };
    };
    expect(await train(5)).toEqual({ runs: 5, saved: ['0', '5'], restored: [] });
    expect(await train(8)).toEqual({ runs: 3, saved: ['8'], restored: ['5'] });
    expect(await train(8)).toEqual({ runs: 0, saved: [], restored: ['8'] });
  });

  it('saves every so many steps', async () => {
    const model = smallModel();
    const saver = new JsonSaver(model.graph);
    await MonitoredTrainingSession(
      optionsOf(model, 10, {
        checkpointDir: space.path(),
        scaffold: new Scaffold({ saver }),
        saveCheckpointSteps: 4,
      }),
      async (session) => {
        while (!session.shouldStop()) await session.run(model.trainOp);
      },
    );
    expect(saver.saved.map((path) => path.replace(/.*-/, ''))).toEqual(['0', '4', '8', '10']);
  });

  it('writes summaries, and steps per second', async () => {
    const summaryDir = space.path();
    const model = smallModel();
    await MonitoredTrainingSession(
      optionsOf(model, 10, { summaryDir, saveSummariesSteps: 3, logStepCountSteps: 4 }),
      async (session) => {
        while (!session.shouldStop()) await session.run(model.trainOp);
      },
    );
    expect((await scalarsIn(summaryDir, 'loss')).map(([step]) => step)).toEqual([1, 4, 7, 10]);
    const speeds = await scalarsIn(summaryDir, 'global_step/sec');
    expect(speeds.map(([step]) => step)).toEqual([5, 9]);
    expect(speeds.every(([, speed]) => speed > 0)).toBe(true);
  });

  it('saves checkpoints that TensorFlow reads if no saver is given', async () => {
    const checkpointDir = space.path();
    const train = async (lastStep: number) => {
      const model = smallModel();
      await MonitoredTrainingSession(optionsOf(model, lastStep, { checkpointDir }), async (session) => {
        while (!session.shouldStop()) await session.run(model.trainOp);
      });
    };
    await train(5);
    expect(await latestCheckpoint(checkpointDir)).toMatch(/model\.ckpt-5$/);
    await train(9);
    const newest = (await latestCheckpoint(checkpointDir)) as string;
    const program = new URL('../testing/read-checkpoint.py', import.meta.url);
    const values = await askPython<Record<string, unknown>>(program, null, [newest]);
    expect(Object.keys(values).sort()).toEqual(['b', 'global_step', 'w']);
    expect(values.global_step).toBe(9);
  });

  it('waits for the chief if it is not the chief, with a deadline', async () => {
    const model = smallModel();
    await expect(
      MonitoredTrainingSession(optionsOf(model, 1, { isChief: false, maxWaitSecs: 0.3 })),
    ).rejects.toThrow(
      /not complete within 300 ms: waiting for the chief to initialize or restore global_step, w, b/,
    );
  });
});

/** A queue of three numbers that is closed: the fourth dequeue fails with OUT_OF_RANGE. */
function withInput() {
  const model = smallModel();
  return model.graph.asDefault(() => {
    const queue = raw.fifoQueueV2({ componentTypes: ['float32'], shapes: [[]], sharedName: 'input' });
    const fill = raw.queueEnqueueManyV2(queue, [Tensor.of([1, 2, 3])]);
    const close = model.graph.controlDependencies([fill], () => raw.queueCloseV2(queue));
    const [next] = raw.queueDequeueV2(queue, { componentTypes: ['float32'] });
    return { ...model, next: next!, localInitOp: close };
  });
}

describe('the end of the input', () => {
  it('ends the session without an error, with the last checkpoint', async () => {
    const model = withInput();
    const saver = new JsonSaver(model.graph);
    const { localInitOp } = model;
    const scaffold = new Scaffold({ saver, localInitOp });
    const seen: number[] = [];
    await MonitoredTrainingSession(
      optionsOf(model, 100, { checkpointDir: space.path(), scaffold }),
      async (session) => {
        while (!session.shouldStop()) {
          const [value] = await session.run([model.next, model.trainOp]);
          seen.push(value.number());
        }
      },
    );
    expect(seen).toEqual([1, 2, 3]);
    expect(saver.saved).toHaveLength(2);
  });

  it('fails the run but not the close, without a function', async () => {
    const model = withInput();
    const session = await MonitoredTrainingSession(
      optionsOf(model, 100, { scaffold: new Scaffold({ localInitOp: model.localInitOp }) }),
    );
    for (let i = 0; i < 3; i++) await session.run(model.next);
    await expect(session.run(model.next)).rejects.toThrow(/OUT_OF_RANGE/);
    expect(session.shouldStop()).toBe(true);
    await session.close();
  });

  it('is reported by queue runners, which stop with the session', async () => {
    const model = smallModel();
    const { graph } = model;
    const { next, enqueue, closeQueue } = graph.asDefault(() => {
      const queue = raw.fifoQueueV2({ componentTypes: ['float32'], shapes: [[]], capacity: 2 });
      const [next] = raw.queueDequeueV2(queue, { componentTypes: ['float32'] });
      const cancel = { cancelPendingEnqueues: true };
      return {
        next: next!,
        enqueue: raw.queueEnqueueV2(queue, [Tensor.of(1)]),
        closeQueue: raw.queueCloseV2(queue, cancel),
      };
    });
    let filled = 0;
    graph.addToCollection(GraphKeys.queueRunners, {
      name: 'input',
      createThreads: (session: SessionLike, coordinator: CoordinatorLike) => [
        (async () => {
          while (!coordinator.shouldStop()) {
            await session.run(enqueue, { signal: coordinator.signal }).catch((error: unknown) => {
              if (!coordinator.shouldStop()) throw error;
            });
            filled += 1;
          }
          await session.run(closeQueue);
        })(),
      ],
    });
    await MonitoredTrainingSession(optionsOf(model, 7), async (session) => {
      while (!session.shouldStop()) await session.run([model.trainOp, next]);
    });
    expect(filled).toBeGreaterThanOrEqual(7);
  });
});

interface SessionLike {
  run(fetch: object, options?: { signal?: AbortSignal }): Promise<unknown>;
}
interface CoordinatorLike {
  readonly signal: AbortSignal;
  shouldStop(): boolean;
}

/** Records the calls. */
class Noting extends SessionRunHook {
  readonly calls: string[] = [];
  override begin() {
    this.calls.push('begin');
  }
  override afterCreateSession() {
    this.calls.push('afterCreateSession');
  }
  override beforeRun() {
    this.calls.push('beforeRun');
  }
  override afterRun() {
    this.calls.push('afterRun');
  }
  override end() {
    this.calls.push('end');
  }
}

describe('hooks', () => {
  it('are called in order', async () => {
    const model = smallModel();
    const hook = new Noting();
    await MonitoredTrainingSession(optionsOf(model, 1, { hooks: [hook] }), (session) =>
      session.run(model.trainOp),
    );
    expect(hook.calls).toEqual(['begin', 'afterCreateSession', 'beforeRun', 'afterRun', 'end']);
  });

  it('of the chief do not run on a worker', async () => {
    const model = smallModel();
    const hook = new Noting();
    const options = optionsOf(model, 1, { isChief: false, chiefOnlyHooks: [hook], maxWaitSecs: 0.05 });
    await expect(MonitoredTrainingSession(options)).rejects.toThrow();
    expect(hook.calls).toEqual([]);
  });

  it('get the values of their fetches, and feed tensors', async () => {
    const model = smallModel();
    const x = model.graph.asDefault(() => raw.placeholder({ dtype: 'float32', shape: [], name: 'fed' }));
    const seen: unknown[] = [];
    const hook: SessionRunHook = {
      beforeRun: () => ({ fetches: { twice: x.mul(2) }, feeds: { fed: 21 } }),
      afterRun: (_, { results }) => void seen.push((results as { twice: Tensor }).twice.number()),
    };
    await using session = await MonitoredTrainingSession(optionsOf(model, 9, { hooks: [hook] }));
    await session.run(model.trainOp);
    expect(seen).toEqual([42]);
    await expect(session.run(model.trainOp, { feeds: { fed: 1 } })).rejects.toThrow(/fed twice/);
  });
});

describe('an error', () => {
  const broken = () => {
    const model = smallModel();
    const bad = model.graph.asDefault(() => raw.checkNumerics(model.loss.div(0), { message: 'oh' }));
    return { ...model, bad };
  };

  it('of a run is thrown by the close, and the end of hooks is not called', async () => {
    const model = broken();
    const hook = new Noting();
    const session = await MonitoredTrainingSession(optionsOf(model, 9, { hooks: [hook] }));
    await expect(session.run(model.bad)).rejects.toThrow(/oh/);
    await expect(session.close()).rejects.toThrow(/oh/);
    expect(hook.calls).not.toContain('end');
  });

  it('of a run that fails while the session closes prevents the last save and the end of hooks', async () => {
    class LateFailure extends SessionRunHook {
      isEnded = false;
      override async afterRun() {
        await new Promise((resolve) => setTimeout(resolve, 300));
        throw new Error('the loss is NaN');
      }
      override end() {
        this.isEnded = true;
      }
    }
    const model = smallModel();
    const saver = new JsonSaver(model.graph);
    const hook = new LateFailure();
    const checkpointDir = space.path();
    const options = { checkpointDir, scaffold: new Scaffold({ saver }), hooks: [hook] };
    const session = await MonitoredTrainingSession(optionsOf(model, 5, options));
    const run = session.run(model.trainOp);
    const thrown = expect(run).rejects.toThrow('the loss is NaN');
    await expect(session.close()).rejects.toThrow('the loss is NaN');
    await thrown;
    expect(hook.isEnded).toBe(false);
    expect(saver.saved.map((path) => path.replace(/.*-/, ''))).toEqual(['0']);
  });

  it('of a run that the caller handled is forgotten', async () => {
    const model = broken();
    const hook = new Noting();
    const session = await MonitoredTrainingSession(optionsOf(model, 9, { hooks: [hook] }));
    await expect(session.run(model.bad)).rejects.toThrow(/oh/);
    await session.run(model.trainOp);
    await session.close();
    expect(hook.calls.at(-1)).toBe('end');
  });

  it('of the function is thrown after the session was closed', async () => {
    const model = smallModel();
    const hook = new Noting();
    const body = async () => {
      throw new ShoalError('SHOAL_CORRUPT', 'mine');
    };
    await expect(MonitoredTrainingSession(optionsOf(model, 9, { hooks: [hook] }), body)).rejects.toThrow(
      'mine',
    );
    expect(hook.calls).toEqual(['begin', 'afterCreateSession']);
  });

  it('of a background task stops training and is thrown by the close', async () => {
    const model = smallModel();
    const hook: SessionRunHook = {
      afterCreateSession: (_, coordinator) => coordinator.register(Promise.reject(new Error('a bad record'))),
    };
    const session = await MonitoredTrainingSession(optionsOf(model, 9, { hooks: [hook] }));
    expect(session.shouldStop()).toBe(true);
    await expect(session.run(model.trainOp)).rejects.toThrow('a bad record');
    await expect(session.close()).rejects.toThrow('a bad record');
  });
});

describe('a signal', () => {
  it('ends training with the last checkpoint', async () => {
    const model = smallModel();
    const saver = new JsonSaver(model.graph);
    const stop = new AbortController();
    let runs = 0;
    await MonitoredTrainingSession(
      optionsOf(model, 1_000_000, {
        checkpointDir: space.path(),
        scaffold: new Scaffold({ saver }),
        signal: stop.signal,
      }),
      async (session) => {
        while (!session.shouldStop()) {
          await session.run(model.trainOp);
          if (++runs === 3) stop.abort('Ctrl-C');
        }
      },
    );
    expect(runs).toBe(3);
    expect(saver.saved.at(-1)).toMatch(/-3$/);
  });

  it('ends a wait for the chief', async () => {
    const model = smallModel();
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 100);
    await expect(
      MonitoredTrainingSession(optionsOf(model, 1, { isChief: false, signal: stop.signal })),
    ).rejects.toThrow(/aborted/);
  });
});

describe('a step function', () => {
  it('makes runs with and without hooks', async () => {
    const model = smallModel();
    const hook = new Noting();
    await using session = await MonitoredTrainingSession(optionsOf(model, 9, { hooks: [hook] }));
    const step = await session.runStepFn(async ({ session: raw, runWithHooks, requestStop }) => {
      await runWithHooks(model.trainOp);
      requestStop();
      return (await raw.run(model.globalStep)).number();
    });
    expect(step).toBe(1);
    expect(session.shouldStop()).toBe(true);
    expect(hook.calls.filter((call) => call === 'beforeRun')).toHaveLength(1);
  });
});

describe('a scaffold', () => {
  it('has its init op, feeds and function used if nothing is restored', async () => {
    const model = smallModel();
    const { initOp, fed } = model.graph.asDefault(() => {
      const fed = raw.placeholder({ dtype: 'float32', shape: [1], name: 'first' });
      const others = [model.globalStep.initializer, model.graph.operation('b/Assign')];
      const set = model.graph.controlDependencies(others, () => model.w.assign(fed));
      return { initOp: set, fed };
    });
    const called: string[] = [];
    const scaffold = new Scaffold({
      initOp,
      initFeedDict: [[fed, [5]]],
      initFn: async (_, session) => void called.push(String((await session.run(model.w)).toArray())),
    });
    await using session = await MonitoredTrainingSession(optionsOf(model, 9, { scaffold }));
    expect((await session.rawSession.run(model.w)).toArray()).toEqual([5]);
    expect(called).toEqual(['5']);
  });
});
