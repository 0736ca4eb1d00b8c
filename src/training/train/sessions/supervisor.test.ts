/** Supervisors in one process: sessions, services, the end. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { generator } from '../../input/dataset/generator.js';
import { stringInputProducer } from '../../input/queues/queue-input.js';
import { JsonSaver } from '../testing/json-saver.js';
import { type SmallModel, smallModel } from '../testing/small-model.js';
import { eventsIn, scalarsIn, Workspace } from '../testing/workspace.js';
import { Supervisor, type SupervisorOptions } from './supervisor.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.make();
});
afterAll(() => space[Symbol.asyncDispose]());

function supervise(model: SmallModel, options: SupervisorOptions = {}) {
  const lines: string[] = [];
  const sv = new Supervisor({ graph: model.graph, log: (line) => lines.push(line), ...options });
  return { sv, lines };
}

/** Trains until a step, or until the supervisor stops. */
async function trainTo(model: SmallModel, sv: Supervisor, lastStep: number): Promise<void> {
  await sv.managedSession(undefined, async (session) => {
    while (!sv.shouldStop()) {
      await session.run(model.trainOp);
      if ((await session.rawSession.run(model.globalStep)).number() >= lastStep) sv.requestStop();
    }
  });
}

const stepsOf = (paths: readonly string[]) => paths.map((path) => Number(path.replace(/.*-/, '')));

describe('a managed session', () => {
  it('is initialized, saved at the start and the end, and restored by the next', async () => {
    const logdir = space.path();
    const first = smallModel();
    const saver = new JsonSaver(first.graph);
    await trainTo(first, supervise(first, { logdir, saver }).sv, 4);
    expect(stepsOf(saver.saved).at(-1)).toBe(4);
    const second = smallModel();
    const again = new JsonSaver(second.graph);
    await trainTo(second, supervise(second, { logdir, saver: again }).sv, 6);
    expect(stepsOf(again.restored)).toEqual([4]);
    expect(stepsOf(again.saved).at(-1)).toBe(6);
  });

  it('keeps nothing without a logdir', async () => {
    const model = smallModel();
    const saver = new JsonSaver(model.graph);
    const { sv } = supervise(model, { saver });
    await trainTo(model, sv, 2);
    expect(saver.saved).toEqual([]);
    expect(sv.summaryWriter).toBeUndefined();
  });

  it('can be used with `await using`', async () => {
    const model = smallModel();
    const { sv } = supervise(model);
    {
      await using session = await sv.managedSession();
      await session.run(model.trainOp);
      expect(sv.shouldStop()).toBe(false);
    }
    expect(sv.shouldStop()).toBe(true);
  });

  it('ends with the input, without an error', async () => {
    const model = smallModel();
    const logdir = space.path();
    const saver = new JsonSaver(model.graph);
    const { next, localInitOp } = model.graph.asDefault(() => {
      const queue = raw.fifoQueueV2({ componentTypes: ['float32'], shapes: [[]] });
      const fill = raw.queueEnqueueManyV2(queue, [Tensor.of([1, 2])]);
      const localInitOp = model.graph.controlDependencies([fill], () => raw.queueCloseV2(queue));
      const [next] = raw.queueDequeueV2(queue, { componentTypes: ['float32'] });
      return { next: next!, localInitOp };
    });
    const { sv } = supervise(model, { logdir, saver, localInitOp });
    await sv.managedSession(undefined, async (session) => {
      while (!sv.shouldStop()) await session.run([model.trainOp, next]);
    });
    expect(stepsOf(saver.saved).at(-1)).toBeGreaterThanOrEqual(2);
  });

  it.each([
    ['consumes all records of a source', undefined],
    ['fails with a source that fails', new Error('out of ink')],
  ])('has records fed, and %s', async (_, error) => {
    const model = smallModel();
    function* source() {
      for (let n = 0; n < 5; n++) yield { n };
      if (error) throw error;
    }
    const { n } = model.graph.asDefault(() =>
      generator(source, { element: { n: { dtype: 'int64' } } })
        .iterator()
        .getNext(),
    );
    const { sv } = supervise(model);
    const seen: unknown[] = [];
    const trained = sv.managedSession(undefined, async (session) => {
      while (!sv.shouldStop()) seen.push((await session.run([n, model.trainOp]))[0].number());
    });
    if (error) return expect(trained).rejects.toBe(error);
    await trained;
    expect(seen).toEqual([0, 1, 2, 3, 4]);
  });

  it('has its queues filled until the epochs are over', async () => {
    const model = smallModel();
    const [name] = model.graph.asDefault(() =>
      stringInputProducer(['a', 'b', 'c'], { numEpochs: 2, shuffle: false }).dequeue(),
    );
    const { sv } = supervise(model);
    const seen: unknown[] = [];
    await sv.managedSession(undefined, async (session) => {
      while (!sv.shouldStop()) seen.push((await session.run([name!, model.trainOp]))[0].item());
    });
    expect(seen.join('')).toBe('abcabc');
  });

  it('ends immediately although its queues are full', async () => {
    const model = smallModel();
    const [name] = model.graph.asDefault(() => stringInputProducer(['a'], { capacity: 2 }).dequeue());
    const { sv, lines } = supervise(model);
    await sv.managedSession(undefined, (session) => session.run([name!, model.trainOp]));
    expect(lines.filter((line) => /still running/.test(line))).toEqual([]);
  });

  it('throws the error of its function after everything has stopped, without a last checkpoint', async () => {
    const model = smallModel();
    const saver = new JsonSaver(model.graph);
    const { sv } = supervise(model, { logdir: space.path(), saver });
    const body = async () => {
      await sv.waitForStop(200);
      throw new Error('mine');
    };
    await expect(sv.managedSession(undefined, body)).rejects.toThrow('mine');
    expect(stepsOf(saver.saved)).toEqual([0]);
  });

  it('stops by a signal, with the last checkpoint', async () => {
    const model = smallModel();
    const saver = new JsonSaver(model.graph);
    const stop = new AbortController();
    const { sv } = supervise(model, { logdir: space.path(), saver, signal: stop.signal });
    let runs = 0;
    await sv.managedSession(undefined, async (session) => {
      while (!sv.shouldStop()) {
        await session.run(model.trainOp);
        if (++runs === 3) stop.abort('Ctrl-C');
      }
    });
    expect(runs).toBe(3);
    expect(stepsOf(saver.saved).at(-1)).toBe(3);
  });
});

describe('the standard services', () => {
  it('write summaries, steps per second, and start and stop events', async () => {
    const model = smallModel();
    const logdir = space.path();
    const { sv } = supervise(model, { logdir, saver: null, saveSummariesSecs: 0.02 });
    await sv.managedSession(undefined, async (session) => {
      const deadline = Date.now() + 20_000;
      let written = 0;
      while (written < 2 && Date.now() < deadline) {
        for (let i = 0; i < 20; i++) await session.run(model.trainOp);
        await sv.summaryWriter?.flush();
        written = (await scalarsIn(logdir, 'global_step/sec')).length;
      }
    });
    expect((await scalarsIn(logdir, 'loss')).length).toBeGreaterThan(1);
    expect((await scalarsIn(logdir, 'global_step/sec')).length).toBeGreaterThan(1);
    const statuses = (await eventsIn(logdir)).flatMap(({ what }) =>
      what.case === 'sessionLog' ? [what.value.status] : [],
    );
    expect(statuses).toEqual([1, 2]);
  });

  it('retry a failed save, and never stop training', async () => {
    const model = smallModel();
    const saver = new JsonSaver(model.graph);
    saver.failures = 1;
    const { sv, lines } = supervise(model, { logdir: space.path(), saver });
    await trainTo(model, sv, 3);
    expect(lines.some((line) => /saving .* failed/.test(line))).toBe(true);
    expect(stepsOf(saver.saved).at(-1)).toBe(3);
  });

  it('are not started if they are disabled', async () => {
    const model = smallModel();
    const saver = new JsonSaver(model.graph);
    const { sv } = supervise(model, { logdir: space.path(), saver });
    await sv.managedSession(undefined, (session) => session.run(model.trainOp), {
      startStandardServices: false,
    });
    expect(saver.saved).toEqual([]);
  });
});

describe('loops of the caller', () => {
  it('stop the supervisor with their error', async () => {
    const model = smallModel();
    const { sv } = supervise(model);
    await expect(
      sv.managedSession(undefined, async () => {
        sv.loop(0.001, () => {
          throw new Error('of the loop');
        });
        await sv.waitForStop();
      }),
    ).rejects.toThrow('of the loop');
  });
});
