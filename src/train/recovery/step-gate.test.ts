import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { StepGate } from './step-gate.js';

/** What a promise has come to so far. */
function watch(promise: Promise<unknown>): { state: () => string } {
  let state = 'pending';
  promise.then(
    () => {
      state = 'resolved';
    },
    (error: Error) => {
      state = `rejected: ${error.message}`;
    },
  );
  return { state: () => state };
}

const turn = () => vi.advanceTimersByTimeAsync(0);

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('a gate that is not parked', () => {
  it('lets steps through, several at once', async () => {
    const gate = new StepGate();
    await gate.enter();
    await gate.enter();
    expect(gate.underWay).toBe(2);
    gate.leave();
    gate.leave();
    expect(gate.underWay).toBe(0);
  });

  it('refuses a leave without an enter', () => {
    expect(() => new StepGate().leave()).toThrow(/did not enter/);
  });
});

describe('a park', () => {
  it('resolves at once when no step is under way', async () => {
    await new StepGate().park({ leaseMs: 1000 });
  });

  it('waits for the steps under way and holds the others until it is resumed', async () => {
    const gate = new StepGate();
    await gate.enter();
    const park = watch(gate.park({ leaseMs: 1000 }));
    const second = watch(gate.enter());
    await turn();
    expect([park.state(), second.state()]).toEqual(['pending', 'pending']);
    gate.leave();
    await turn();
    expect([park.state(), second.state()]).toEqual(['resolved', 'pending']);
    gate.resume();
    await turn();
    expect(second.state()).toBe('resolved');
  });

  it('ends by itself after its lease, so that nobody is held by a chief that died', async () => {
    const gate = new StepGate();
    await gate.park({ leaseMs: 1000 });
    const step = watch(gate.enter());
    await vi.advanceTimersByTimeAsync(999);
    expect(step.state()).toBe('pending');
    await vi.advanceTimersByTimeAsync(2);
    expect(step.state()).toBe('resolved');
    expect(gate.parked).toBe(false);
  });

  it('fails when its lease ends before all steps rest', async () => {
    const gate = new StepGate();
    await gate.enter();
    const park = watch(gate.park({ leaseMs: 1000 }));
    await vi.advanceTimersByTimeAsync(1001);
    expect(park.state()).toMatch(/rejected: .* 1 are under way: its lease of 1000 ms is over/);
  });

  it('takes the place of one before it, with a lease of its own', async () => {
    const gate = new StepGate();
    await gate.park({ leaseMs: 1000 });
    const step = watch(gate.enter());
    await vi.advanceTimersByTimeAsync(900);
    await gate.park({ leaseMs: 1000 });
    await vi.advanceTimersByTimeAsync(900);
    expect(step.state()).toBe('pending');
    gate.resume();
    await turn();
    expect(step.state()).toBe('resolved');
  });

  it('needs a lease', () => {
    expect(() => new StepGate().park({ leaseMs: 0 })).toThrow(/needs a lease/);
  });
});

describe('a step that waits', () => {
  it('is given up by its signal and does not count', async () => {
    const gate = new StepGate();
    await gate.park({ leaseMs: 1000 });
    const stop = new AbortController();
    const step = watch(gate.enter(stop.signal));
    stop.abort();
    await turn();
    expect(step.state()).toMatch(/rejected: A training step was aborted/);
    expect(gate.underWay).toBe(0);
  });
});

describe('a park at a step', () => {
  it('lets steps through until the global step is there', async () => {
    const gate = new StepGate();
    gate.saw(3);
    const park = watch(gate.park({ atStep: 5, leaseMs: 1000 }));
    expect(gate.wantsStep).toBe(true);
    for (const step of [4, 5]) {
      await gate.enter();
      gate.saw(step);
      gate.leave();
      await turn();
      expect(park.state()).toBe(step === 5 ? 'resolved' : 'pending');
    }
    const held = watch(gate.enter());
    await turn();
    expect(held.state()).toBe('pending');
    gate.resume();
    await turn();
    expect(held.state()).toBe('resolved');
  });

  it('resolves at once where the step was seen already', async () => {
    const gate = new StepGate();
    gate.saw(7);
    await gate.park({ atStep: 7, leaseMs: 1000 });
  });

  it('lets a step go on that rested under a park without one', async () => {
    const gate = new StepGate();
    gate.saw(3);
    await gate.park({ leaseMs: 1000 });
    const step = watch(gate.enter());
    void gate.park({ atStep: 4, leaseMs: 1000 }).catch(() => {});
    await turn();
    expect(step.state()).toBe('resolved');
  });
});
