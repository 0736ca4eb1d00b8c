/** Recovery in one process: a variable is taken away, as the loss of a ps does, with TensorFlow's own op. */
import { describe, expect, it } from 'vitest';
import { ShoalError } from '../../errors/errors.js';
import { Graph } from '../../graph/graph.js';
import * as raw from '../../ops/generated/index.js';
import { Session } from '../../session/session.js';
import { createGlobalStep } from '../../variables/global-step.js';
import type { Variable } from '../../variables/variable.js';
import { variable } from '../../variables/variable-scope.js';
import { readsOnly } from './reads-only.js';
import { type RecoverableOptions, RecoverableSession } from './recoverable-session.js';
import { StepGate } from './step-gate.js';

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

describe('variables without values', () => {
  it('are restored by the chief before any gets a first value', async () => {
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
    expect(lines.at(-1)).toMatch(/whole again/);
  });

  it('get first values where nothing can be restored, loudly when values were there', async () => {
    const parts = model();
    await using runner = Session.open({ graph: parts.graph });
    const { session, lines } = sessionOf(parts, runner, { restore: async () => false });
    expect(await numbers(session, parts)).toEqual([1, 2]);
    expect(lines).toEqual([]);
    await runner.run(parts.lose(parts.b as Variable));
    expect(await numbers(session, parts)).toEqual([1, 2]);
    expect(lines).toContain('no value is left of b: starting again from first values');
  });

  it('never get first values beside restored ones', async () => {
    const parts = model();
    await using runner = Session.open({ graph: parts.graph });
    const restore = async () => {
      await runner.run([parts.set[0]]);
      return true;
    };
    const { session, lines } = sessionOf(parts, runner, { restore, recoveryMs: 300 });
    await expect(session.ready()).rejects.toThrow(/not whole within 300 ms: restored, but b, global_step/);
    expect(lines[0]).toMatch(/restoring once more/);
    expect((await runner.run(parts.b.isInitialized())).item()).toBe(false);
  });

  it('stop a chief whose checkpoints can not be read', async () => {
    const parts = model();
    await using runner = Session.open({ graph: parts.graph });
    const restore = async (): Promise<boolean> => {
      throw new ShoalError('SHOAL_CORRUPT', 'model.ckpt-7 is damaged');
    };
    const { session } = sessionOf(parts, runner, { restore });
    await expect(session.ready()).rejects.toThrow(/model.ckpt-7 is damaged/);
    expect((await runner.run(parts.w.isInitialized())).item()).toBe(false);
  });

  it('are waited for by a worker, with a line and a deadline', async () => {
    const parts = model();
    await using runner = Session.open({ graph: parts.graph });
    const { session, lines } = sessionOf(parts, runner, {
      isChief: false,
      recoveryMs: 100,
      startMs: 3000,
      progressMs: 1,
    });
    await expect(session.ready()).rejects.toThrow(/not whole within 3000 ms: waiting for the chief/);
    expect(lines[0]).toMatch(/^waiting for the chief to give values to w, b, global_step \(\d of 3 s\)$/);
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

  it('has a task care for its own before it looks at the ready op', async () => {
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
    await expect(session.ready()).rejects.toThrow(/init op has run, and b, global_step still have no value/);
  });

  it('is told once at the start and once after each recovery', async () => {
    const parts = model();
    await using runner = Session.open({ graph: parts.graph });
    const told: boolean[] = [];
    const { session } = sessionOf(parts, runner, { onReady: (again) => void told.push(again) });
    await session.run(parts.train);
    await runner.run(parts.lose(parts.w as Variable));
    await Promise.all([numbers(session, parts), numbers(session, parts)]);
    expect(told).toEqual([false, true]);
  });
});

describe('a gate', () => {
  it('holds steps while it is parked, and nothing else', async () => {
    const parts = model();
    const gate = new StepGate();
    await using runner = Session.open({ graph: parts.graph });
    const { session } = sessionOf(parts, runner, { gate });
    await session.run(parts.train);
    await gate.park({ leaseMs: 60_000 });
    let made = false;
    const step = session.run(parts.train).then(() => {
      made = true;
    });
    expect((await session.runUngated(parts.step)).number()).toBe(1);
    // What only reads is no step, whichever way it is asked for.
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
      await gate.park({ leaseMs: 60_000 });
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

  it('that rests at a step lets steps by until it is reached', async () => {
    const parts = model();
    const gate = new StepGate();
    await using runner = Session.open({ graph: parts.graph });
    const { session } = sessionOf(parts, runner, { gate });
    await session.run(parts.train);
    const parked = gate.park({ atStep: 3, leaseMs: 60_000 });
    const all = Promise.all([1, 2, 3, 4].map(() => session.run(parts.train)));
    await parked;
    const rested = (await session.runUngated(parts.step)).number();
    expect(rested).toBeGreaterThanOrEqual(3);
    gate.resume();
    await all;
    expect((await session.runUngated(parts.step)).number()).toBe(5);
  });
});

describe('a run that only reads', () => {
  it('is told from one that waits for a step, and from all else', () => {
    const { graph, step, train, w } = model();
    const after = graph.asDefault(() => graph.controlDependencies([train], () => step.read()));
    const sum = graph.asDefault(() => w.toOutput().add(1));
    expect([w, [w, step.toOutput()], { a: w, b: null }].map(readsOnly)).toEqual([true, true, true]);
    expect([train, after, sum, [w, train], 'w:0'].map(readsOnly)).toEqual(Array(5).fill(false));
  });
});

describe('errors', () => {
  it('that no change of the cluster explains are thrown', async () => {
    const parts = model();
    const bad = parts.graph.asDefault(() => raw.checkNumerics(parts.w.toOutput().div(0), { message: 'oh' }));
    await using runner = Session.open({ graph: parts.graph });
    const { session } = sessionOf(parts, runner);
    await expect(session.run(bad)).rejects.toThrow(/oh/);
  });

  it('that some sessions do not recover from are thrown', async () => {
    const parts = model();
    await using runner = Session.open({ graph: parts.graph });
    const { session } = sessionOf(parts, runner, { isRecoverable: () => false });
    await session.ready();
    await runner.run(parts.lose(parts.w as Variable));
    await expect(session.run(parts.w)).rejects.toThrow(/w/);
  });
});
