import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { StepGate } from './step-gate.js';

/** The current state of a promise. */
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

describe('a gate that is not paused', () => {
  it('lets several steps pass at the same time', async () => {
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

describe('a pause', () => {
  it('resolves at once when no step is running', async () => {
    await new StepGate().pause({ leaseMs: 1000 });
  });

  it('waits for running steps and blocks new ones until it is resumed', async () => {
    const gate = new StepGate();
    await gate.enter();
    const pause = watch(gate.pause({ leaseMs: 1000 }));
    const second = watch(gate.enter());
    await turn();
    expect([pause.state(), second.state()]).toEqual(['pending', 'pending']);
    gate.leave();
    await turn();
    expect([pause.state(), second.state()]).toEqual(['resolved', 'pending']);
    gate.resume();
    await turn();
    expect(second.state()).toBe('resolved');
  });

  it('waits until the outcome of a failed step is known', async () => {
    const gate = new StepGate();
    await gate.enter();
    const release = gate.hold();
    const pause = watch(gate.pause({ leaseMs: 1000 }));
    gate.leave();
    await turn();
    expect(pause.state()).toBe('pending');
    release();
    release();
    await turn();
    expect(pause.state()).toBe('resolved');
  });

  it('reports failed steps whose outcome is not known', async () => {
    const gate = new StepGate();
    gate.hold();
    const pause = watch(gate.pause({ leaseMs: 1000 }));
    await vi.advanceTimersByTimeAsync(1000);
    expect(pause.state()).toMatch(/0 steps are running, 1 failed and may be partially applied: the lease/);
  });

  it('ends when its lease expires, so a dead chief blocks no worker', async () => {
    const gate = new StepGate();
    await gate.pause({ leaseMs: 1000 });
    const step = watch(gate.enter());
    await vi.advanceTimersByTimeAsync(999);
    expect(step.state()).toBe('pending');
    await vi.advanceTimersByTimeAsync(2);
    expect(step.state()).toBe('resolved');
    expect(gate.paused).toBe(false);
  });

  it('fails when its lease expires before all steps are paused', async () => {
    const gate = new StepGate();
    await gate.enter();
    const pause = watch(gate.pause({ leaseMs: 1000 }));
    await vi.advanceTimersByTimeAsync(1001);
    expect(pause.state()).toMatch(/rejected: .* 1 steps are running: the lease of 1000 ms expired/);
  });

  it('replaces an earlier one, with its own lease', async () => {
    const gate = new StepGate();
    await gate.pause({ leaseMs: 1000 });
    const step = watch(gate.enter());
    await vi.advanceTimersByTimeAsync(900);
    await gate.pause({ leaseMs: 1000 });
    await vi.advanceTimersByTimeAsync(900);
    expect(step.state()).toBe('pending');
    gate.resume();
    await turn();
    expect(step.state()).toBe('resolved');
  });

  it('needs a positive lease', () => {
    expect(() => new StepGate().pause({ leaseMs: 0 })).toThrow(/leaseMs must be greater than 0/);
  });
});

describe('a step that waits', () => {
  it('is aborted by its signal and does not count', async () => {
    const gate = new StepGate();
    await gate.pause({ leaseMs: 1000 });
    const stop = new AbortController();
    const step = watch(gate.enter(stop.signal));
    stop.abort();
    await turn();
    expect(step.state()).toMatch(/rejected: A training step was aborted/);
    expect(gate.underWay).toBe(0);
  });
});

describe('a pause at a step', () => {
  it('lets steps pass until the global step is reached', async () => {
    const gate = new StepGate();
    const pause = watch(gate.pause({ atStep: 5, leaseMs: 1000 }));
    expect(gate.needsStep).toBe(true);
    gate.stepReporter()(3);
    for (const step of [4, 5]) {
      expect(await gate.enter()).toBe(true);
      gate.stepReporter()(step);
      gate.leave();
      await turn();
      expect(pause.state()).toBe(step === 5 ? 'resolved' : 'pending');
    }
    const held = watch(gate.enter());
    await turn();
    expect(held.state()).toBe('pending');
    gate.resume();
    await turn();
    expect(held.state()).toBe('resolved');
  });

  it('does not rely on a step from before it, which a restore may have undone', async () => {
    const gate = new StepGate();
    const late = gate.stepReporter();
    const pause = watch(gate.pause({ atStep: 5, leaseMs: 1000 }));
    late(7);
    expect(await gate.enter()).toBe(false);
    gate.stepReporter()(3);
    expect(await gate.enter()).toBe(true);
    gate.leave();
    expect(pause.state()).toBe('pending');
    gate.stepReporter()(5);
    await turn();
    expect(pause.state()).toBe('resolved');
  });

  it('lets a step that an earlier pause blocked report the global step', async () => {
    const gate = new StepGate();
    const earlier = gate.pause({ atStep: 7, leaseMs: 1000 });
    gate.stepReporter()(7);
    await earlier;
    const step = gate.enter();
    void gate.pause({ atStep: 5, leaseMs: 1000 }).catch(() => {});
    expect(await step).toBe(false);
  });

  it('is not ended by a lower step that was read before it was complete', async () => {
    const gate = new StepGate();
    const pause = gate.pause({ atStep: 7, leaseMs: 1000 });
    const late = gate.stepReporter();
    gate.stepReporter()(7);
    await pause;
    late(6);
    const step = watch(gate.enter());
    await turn();
    expect(step.state()).toBe('pending');
  });

  it('does not wait for steps after the last one', async () => {
    const gate = new StepGate();
    await gate.enter();
    const pause = watch(gate.pause({ atStep: 7, leaseMs: 1000 }));
    gate.stepReporter()(5);
    gate.ended();
    await turn();
    expect(pause.state()).toBe('pending');
    gate.leave();
    await turn();
    expect(pause.state()).toBe('resolved');
    const next = watch(gate.enter());
    await turn();
    expect(next.state()).toBe('pending');
  });
});

describe('a pause that holds', () => {
  it('lasts until it is resumed itself; a later pause is complete at once, at whichever step', async () => {
    const gate = new StepGate();
    await gate.pause({ leaseMs: 60_000, token: 'hold', holds: true });
    const step = watch(gate.enter());
    await gate.pause({ leaseMs: 60_000, token: 'export', atStep: 1000 });
    gate.resume('export');
    await turn();
    expect([step.state(), gate.paused]).toEqual(['pending', true]);
    gate.resume('hold');
    await turn();
    expect([step.state(), gate.paused]).toEqual(['resolved', false]);
  });

  it('does not end a later pause', async () => {
    const gate = new StepGate();
    await gate.pause({ leaseMs: 60_000, token: 'hold', holds: true });
    await gate.pause({ leaseMs: 60_000, token: 'export' });
    gate.resume('hold');
    expect([gate.paused, gate.has('hold'), gate.has('export')]).toEqual([true, false, true]);
    gate.resume('export');
    expect(gate.paused).toBe(false);
  });

  it('ends with its lease', async () => {
    const gate = new StepGate();
    await gate.pause({ leaseMs: 1000, token: 'hold', holds: true });
    await gate.pause({ leaseMs: 500, token: 'export' });
    await vi.advanceTimersByTimeAsync(600);
    expect(gate.paused).toBe(true);
    await vi.advanceTimersByTimeAsync(600);
    expect(gate.paused).toBe(false);
  });

  it('is replaced as long as steps are running', async () => {
    const gate = new StepGate();
    await gate.enter();
    const hold = watch(gate.pause({ leaseMs: 60_000, token: 'hold', holds: true }));
    const later = watch(gate.pause({ leaseMs: 60_000, token: 'later' }));
    await turn();
    expect(hold.state()).toMatch(/another pause replaced this one/);
    gate.leave();
    await turn();
    expect(later.state()).toBe('resolved');
  });
});
