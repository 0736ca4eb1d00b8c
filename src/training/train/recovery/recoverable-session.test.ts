/** Recovery in one process: TensorFlow's op destroys a variable, as the loss of a ps does. */
import { describe, expect, it, vi } from 'vitest';
import { ShoalError } from '../../../base/errors/errors.js';
import { taskId } from '../../../distributed/cluster/spec/task-id.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import { GradientDescentOptimizer } from '../../../tensorflow/optimizers/rules/gradient-descent.js';
import { SyncReplicasOptimizer } from '../../../tensorflow/optimizers/sync/sync-replicas.js';
import { Session } from '../../../tensorflow/session/session.js';
import { createGlobalStep } from '../../../tensorflow/variables/global-step.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { variable } from '../../../tensorflow/variables/variable-scope.js';
import { readsOnly } from './reads-only.js';
import { type RecoverableOptions, RecoverableSession } from './recoverable-session.js';
import { ReplacedVariables } from './replaced-variables.js';
import { StepGate } from './steps/step-gate.js';

function model() {
  const graph = new Graph();
  return graph.asDefault(() => {
    const w = variable('w', { shape: [], initializer: 1 });
    const b = variable('b', { shape: [], initializer: 2 });
    const step = createGlobalStep();
    const train = step.assignAdd(1n);
    const lose = (which: Variable) =>
      graph.asDefault(() => raw.destroyResourceOp(which.handle, { ignoreLookupError: true }));
    const set = graph.asDefault(() => [w.assign(10), b.assign(20)]);
    return { graph, w, b, step, train, lose, set };
  });
}

type Model = ReturnType<typeof model>;

function sessionOf(parts: Model, runner: Session, options: Partial<RecoverableOptions> = {}) {
  const lines: string[] = [];
  const session = new RecoverableSession({
    runner,
    graph: parts.graph,
    isChief: true,
    log: (line) => lines.push(line),
    ...options,
  });
  return { session, lines };
}

const numbers = async (session: RecoverableSession, { w, b }: Model) =>
  (await session.run([w, b])).map((value) => value.number());

it('combines no signals in a step: Node would keep them', async () => {
  const parts = model();
  await using runner = Session.open({ graph: parts.graph });
  const { session } = sessionOf(parts, runner, { signal: new AbortController().signal });
  await session.ready();
  const any = vi.spyOn(AbortSignal, 'any');
  try {
    for (let i = 0; i < 20; i++) {
      await session.run(parts.train);
      await session.run(parts.train, { signal: new AbortController().signal });
    }
    expect(any).not.toHaveBeenCalled();
  } finally {
    any.mockRestore();
  }
});

describe('variables without values', () => {
  it('are restored by the chief before any is initialized', async () => {
    const parts = model();
    await using runner = Session.open({ graph: parts.graph });
    const calls: [string[], boolean][] = [];
    const restore = async (missing: readonly Variable[], again: boolean) => {
      calls.push([missing.map(({ name }) => name), again]);
      await runner.run([...parts.set, parts.step.initializer]);
      return true;
    };
    const { session, lines } = sessionOf(parts, runner, { restore });
    expect(await numbers(session, parts)).toEqual([10, 20]);
    await runner.run(parts.lose(parts.b as Variable));
    expect(await numbers(session, parts)).toEqual([10, 20]);
    expect(calls).toEqual([
      [['w', 'b', 'global_step'], false],
      [['b'], true],
    ]);
    expect(session.recoveries).toBe(1);
    expect(lines.at(-1)).toMatch(/complete again/);
  });

  it('are restored without a question if their ps is another process', async () => {
    const parts = model();
    await using runner = Session.open({ graph: parts.graph });
    const processes = { w: 'a', b: 'a' };
    const replaced = new ReplacedVariables({
      ps: () => Object.entries(processes).map(([name, nonce]) => ({ task: taskId(name, 0), nonce })),
      ownerOf: (device) => device,
      allThere: async () => {},
    });
    const calls: string[][] = [];
    const restore = async (missing: readonly Variable[]) => {
      calls.push(missing.map(({ name }) => name));
      await runner.run([...parts.set, parts.step.initializer]);
      return true;
    };
    const { session } = sessionOf(parts, runner, { restore, replaced });
    await session.ready();
    processes.b = 'another';
    // Only b is lost as far as TensorFlow knows, but its process is that of w's ps.
    Object.defineProperty(parts.w, 'device', { value: taskId('b', 0) });
    await runner.run(parts.lose(parts.b as Variable));
    expect(await numbers(session, parts)).toEqual([10, 20]);
    expect(calls).toEqual([['w', 'b', 'global_step'], ['w']]);
    await runner.run(parts.lose(parts.b as Variable));
    expect(await numbers(session, parts)).toEqual([10, 20]);
    expect(calls.at(-1)).toEqual(['b']);
  });

  it('are initialized once if their ps is another process and there is no checkpoint', async () => {
    const parts = model();
    await using runner = Session.open({ graph: parts.graph });
    let nonce = 'a';
    const replaced = new ReplacedVariables({
      ps: () => [{ task: taskId('ps', 0), nonce }],
      ownerOf: () => taskId('ps', 0),
      allThere: async () => {},
    });
    const { session, lines } = sessionOf(parts, runner, { restore: async () => false, replaced });
    await session.ready();
    nonce = 'another';
    await runner.run([parts.w, parts.b].map((each) => parts.lose(each as Variable)));
    expect(await numbers(session, parts)).toEqual([1, 2]);
    expect(lines.filter((line) => /restarts from initial values/.test(line))).toHaveLength(1);
  });

  it('are initialized if nothing can be restored, with a log line if values were lost', async () => {
    const parts = model();
    await using runner = Session.open({ graph: parts.graph });
    const { session, lines } = sessionOf(parts, runner, { restore: async () => false });
    expect(await numbers(session, parts)).toEqual([1, 2]);
    expect(lines).toEqual([]);
    await runner.run(parts.lose(parts.b as Variable));
    expect(await numbers(session, parts)).toEqual([1, 2]);
    expect(lines).toContain(
      'lost b, and there is no checkpoint: training restarts from initial values of all variables',
    );
  });

  it.each([
    [false, [1, 2], 0],
    [true, [10, 2], 1],
  ])(
    'are initialized with all others if nothing can be restored (partial recovery: %s)',
    async (isPartial, values, step) => {
      const parts = model();
      await using runner = Session.open({ graph: parts.graph });
      const options = { restore: async () => false, isPartial };
      const { session } = sessionOf(parts, runner, options);
      await session.ready();
      await runner.run([...parts.set, parts.train]);
      await runner.run(parts.lose(parts.b as Variable));
      expect(await numbers(session, parts)).toEqual(values);
      expect((await session.run(parts.step)).number()).toBe(step);
      // The same for a chief that is lost together with a ps.
      await runner.run(parts.set);
      await runner.run(parts.lose(parts.b as Variable));
      const { session: next, lines } = sessionOf(parts, runner, options);
      expect(await numbers(next, parts)).toEqual(values);
      expect(lines.filter((line) => line.startsWith('lost b, '))).toHaveLength(isPartial ? 0 : 1);
    },
  );

  it('are never initialized next to restored ones', async () => {
    const parts = model();
    await using runner = Session.open({ graph: parts.graph });
    const restore = async () => {
      await runner.run([parts.set[0]]);
      return true;
    };
    const { session, lines } = sessionOf(parts, runner, { restore, recoveryMs: 300, progressMs: 1 });
    await expect(session.ready()).rejects.toThrow(/not complete within 300 ms: restored, but b, global_step/);
    expect(lines[0]).toMatch(/restoring again/);
    expect((await runner.run(parts.b.isInitialized())).item()).toBe(false);
  });

  it('stop a chief whose checkpoints cannot be read', async () => {
    const parts = model();
    await using runner = Session.open({ graph: parts.graph });
    const restore = async (): Promise<boolean> => {
      throw new ShoalError('SHOAL_CORRUPT', 'model.ckpt-7 is damaged');
    };
    const { session } = sessionOf(parts, runner, { restore });
    await expect(session.ready()).rejects.toThrow(/model.ckpt-7 is damaged/);
    expect((await runner.run(parts.w.isInitialized())).item()).toBe(false);
  });

  it('make a worker wait until a deadline, and log it', async () => {
    const parts = model();
    await using runner = Session.open({ graph: parts.graph });
    const { session, lines } = sessionOf(parts, runner, {
      isChief: false,
      recoveryMs: 100,
      startMs: 3000,
      progressMs: 1,
    });
    await expect(session.ready()).rejects.toThrow(/not complete within 3000 ms: waiting for the chief/);
    expect(lines[0]).toMatch(
      /^waiting for the chief to initialize or restore w, b, global_step · \d of 3 s$/,
    );
    expect(lines.length).toBeGreaterThan(1);
  });
});

describe('readiness', () => {
  it('waits for what a ready op names', async () => {
    const parts = model();
    const table = parts.graph.asDefault(() =>
      variable('names', { initializer: ['a table'], dtype: 'string' }),
    );
    await using runner = Session.open({ graph: parts.graph });
    await runner.run(table.initializer);
    const readyOp = table.toOutput();
    const { session } = sessionOf(parts, runner, { readyOp, startMs: 200 });
    await expect(session.ready()).rejects.toThrow(/waiting for a table to be ready/);
  });

  it('runs the local initialization before the ready op', async () => {
    const parts = model();
    const order: string[] = [];
    await using runner = Session.open({ graph: parts.graph });
    const localInit = async (again: boolean) => void order.push(`local ${again}`);
    const { session } = sessionOf(parts, runner, { localInit, onReady: () => void order.push('ready') });
    await session.ready();
    expect(order).toEqual(['local false', 'ready']);
  });

  it('is never reached with an init op that leaves variables without values', async () => {
    const parts = model();
    await using runner = Session.open({ graph: parts.graph });
    const initialize = async () => void (await runner.run(parts.w.initializer));
    const { session } = sessionOf(parts, runner, { initialize });
    await expect(session.ready()).rejects.toThrow(/init op has run, but b, global_step still have no value/);
  });

  it('is reported once at the start and once after each recovery', async () => {
    const parts = model();
    await using runner = Session.open({ graph: parts.graph });
    const reported: boolean[] = [];
    const { session } = sessionOf(parts, runner, { onReady: (again) => void reported.push(again) });
    await session.run(parts.train);
    await runner.run(parts.lose(parts.w as Variable));
    await Promise.all([numbers(session, parts), numbers(session, parts)]);
    expect(reported).toEqual([false, true]);
  });
});

describe('a gate', () => {
  it('blocks steps while it is paused, and nothing else', async () => {
    const parts = model();
    const gate = new StepGate();
    await using runner = Session.open({ graph: parts.graph });
    const { session } = sessionOf(parts, runner, { gate });
    await session.run(parts.train);
    await gate.pause({ leaseMs: 60_000 });
    let made = false;
    const step = session.run(parts.train).then(() => {
      made = true;
    });
    expect((await session.runUngated(parts.step)).number()).toBe(1);
    // A plain read is not a step, however it is fetched.
    expect((await session.run({ read: [parts.step] })).read[0].number()).toBe(1);
    expect(made).toBe(false);
    gate.resume();
    await step;
    expect((await session.runUngated(parts.step)).number()).toBe(2);
  });

  it('does not wait for a step that waits for a recovery', async () => {
    const parts = model();
    const gate = new StepGate();
    await using runner = Session.open({ graph: parts.graph });
    let underWay: number | undefined;
    const restore = async (_: readonly Variable[], again: boolean) => {
      if (!again) return false;
      await gate.pause({ leaseMs: 60_000 });
      underWay = gate.underWay;
      await runner.run([...parts.set, parts.step.initializer]);
      gate.resume();
      return true;
    };
    const { session } = sessionOf(parts, runner, { gate, restore });
    await session.ready();
    await runner.run(parts.lose(parts.w as Variable));
    expect(await numbers(session, parts)).toEqual([10, 20]);
    expect(underWay).toBe(0);
  });

  it('that pauses at a step lets steps pass until it is reached', async () => {
    const parts = model();
    const gate = new StepGate();
    await using runner = Session.open({ graph: parts.graph });
    const { session } = sessionOf(parts, runner, { gate });
    await session.run(parts.train);
    const paused = gate.pause({ atStep: 3, leaseMs: 60_000 });
    const all = Promise.all([1, 2, 3, 4].map(() => session.run(parts.train)));
    await paused;
    const pausedAt = (await session.runUngated(parts.step)).number();
    expect(pausedAt).toBeGreaterThanOrEqual(3);
    gate.resume();
    await all;
    expect((await session.runUngated(parts.step)).number()).toBe(5);
  });
});

describe('a run that only reads', () => {
  it('is distinguished from one that waits for a step, and from all others', () => {
    const { graph, step, train, w } = model();
    const after = graph.asDefault(() => graph.controlDependencies([train], () => step.read()));
    const sum = graph.asDefault(() => w.toOutput().add(1));
    expect([w, [w, step.toOutput()], { a: w, b: null }].map(readsOnly)).toEqual([true, true, true]);
    expect([train, after, sum, [w, train], 'w:0'].map(readsOnly)).toEqual(Array(5).fill(false));
  });
});

describe('errors', () => {
  it('that a change of the cluster does not explain are thrown', async () => {
    const parts = model();
    const bad = parts.graph.asDefault(() => raw.checkNumerics(parts.w.toOutput().div(0), { message: 'oh' }));
    await using runner = Session.open({ graph: parts.graph });
    const { session } = sessionOf(parts, runner);
    await expect(session.run(bad)).rejects.toThrow(/oh/);
  });

  it('that the session is configured not to recover from are thrown', async () => {
    const parts = model();
    await using runner = Session.open({ graph: parts.graph });
    const { session } = sessionOf(parts, runner, { isRecoverable: () => false });
    await session.ready();
    await runner.run(parts.lose(parts.w as Variable));
    await expect(session.run(parts.w)).rejects.toThrow(/w/);
  });
});

describe('a step of deterministic training that was applied in part', () => {
  const parts = () => {
    const graph = new Graph();
    return graph.asDefault(() => {
      const w = variable('w', { shape: [], initializer: 1 });
      const step = createGlobalStep();
      const optimizer = new SyncReplicasOptimizer(new GradientDescentOptimizer(0.5), {
        replicasToAggregate: 1,
        deterministic: true,
        workerIndex: 0,
      });
      optimizer.minimize(w.toOutput().square(), { globalStep: step });
      const next = step.assignAdd(1n);
      return { graph, w, step, optimizer, next };
    });
  };
  const successor = (runner: Session, { graph, w, step }: ReturnType<typeof parts>) => {
    const restored: string[][] = [];
    const session = new RecoverableSession({
      runner,
      graph,
      isChief: true,
      restore: async (missing) => {
        restored.push(missing.map(({ name }) => name));
        await runner.run([w.initializer, step.initializer]);
        return true;
      },
    });
    return { session, restored };
  };

  it('is undone by a restore, and only then', async () => {
    const made = parts();
    await using runner = Session.open({ graph: made.graph });
    const first = successor(runner, made);
    await first.session.ready();
    await runner.run(made.optimizer.initTokensOp);
    const second = successor(runner, made);
    await second.session.ready();
    expect(second.restored).toEqual([]);
    await runner.run(made.next);
    const third = successor(runner, made);
    await third.session.ready();
    expect(third.restored).toEqual([['w', 'global_step']]);
    // It died before it set the counters: nobody knows whether its restore was complete.
    const fourth = successor(runner, made);
    await fourth.session.ready();
    expect(fourth.restored).toEqual([['w', 'global_step']]);
  });
});

it('begins a recovery for a step while a ps is known to be lost, instead of waiting in the session', async () => {
  const parts = model();
  await using runner = Session.open({ graph: parts.graph });
  let lost = ['/job:ps/task:1'];
  const events: string[] = [];
  const { session, lines } = sessionOf(parts, runner, {
    lostPs: () => lost,
    onLost: () => {
      events.push('lost');
      lost = [];
    },
  });
  await session.ready();
  await session.run(parts.train);
  expect(events).toEqual(['lost']);
  expect(lines[0]).toBe('a step failed: /job:ps/task:1 is lost; waiting for the cluster');
  expect(session.recoveries).toBe(1);
  expect((await session.run(parts.step)).number()).toBe(1);
});

it('the signal of a run ends its wait for a recovery, which continues', async () => {
  const parts = model();
  await using runner = Session.open({ graph: parts.graph });
  let lost = ['/job:ps/task:0', '/job:ps/task:1'];
  let come = () => {};
  const { session, lines } = sessionOf(parts, runner, {
    lostPs: () => lost,
    onLost: () => new Promise<void>((resolve) => (come = resolve)),
  });
  await session.ready();
  const stop = new AbortController();
  const stopped = session.run(parts.train, { signal: stop.signal });
  setTimeout(() => stop.abort('enough'), 50);
  await expect(stopped).rejects.toMatchObject({ code: 'SHOAL_ABORTED' });
  expect(lines[0]).toContain('/job:ps/task:0, /job:ps/task:1 are lost');
  expect(session.isRecovering).toBe(true);
  lost = [];
  come();
  await session.run(parts.train);
  expect(session.recoveries).toBe(1);
});
