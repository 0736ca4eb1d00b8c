import { describe, expect, it } from 'vitest';
import { described } from '../../../../test/described.js';
import { sleep } from '../../../base/async/deadline.js';
import { ShoalError, TensorFlowError } from '../../../base/errors/errors.js';
import { Coordinator } from './coordinator.js';

const untilStop = (coordinator: Coordinator) => coordinator.waitForStop();

describe('a stop', () => {
  it('is seen by all loops and ends waits', async () => {
    const coordinator = new Coordinator();
    expect(coordinator.shouldStop()).toBe(false);
    expect(await coordinator.waitForStop(1)).toBe(false);
    const waiting = coordinator.waitForStop();
    coordinator.requestStop();
    expect(await waiting).toBe(true);
    expect(coordinator.shouldStop()).toBe(true);
    expect(coordinator.signal.aborted).toBe(true);
  });

  it('keeps the first error only', async () => {
    const coordinator = new Coordinator();
    coordinator.requestStop(new Error('first'));
    coordinator.requestStop(new Error('second'));
    expect(() => coordinator.raiseRequestedException()).toThrow('first');
    await expect(coordinator.join()).rejects.toThrow('first');
  });

  it('at the end of the input is not an error', async () => {
    const coordinator = new Coordinator();
    coordinator.requestStop(new TensorFlowError('OUT_OF_RANGE', 'queue is closed'));
    expect(coordinator.shouldStop()).toBe(true);
    await coordinator.join();
  });

  it('can be cleared', async () => {
    const coordinator = new Coordinator();
    coordinator.requestStop(new Error('x'));
    coordinator.clearStop();
    expect(coordinator.shouldStop()).toBe(false);
    coordinator.raiseRequestedException();
    coordinator.requestStop();
    await coordinator.join();
    expect(coordinator.joined).toBe(true);
  });

  it('with an error after the join throws it to the caller', async () => {
    const coordinator = new Coordinator();
    coordinator.requestStop();
    await coordinator.join();
    expect(() => coordinator.requestStop(new Error('late'))).toThrow('late');
  });

  it('is requested when a body throws', async () => {
    const coordinator = new Coordinator();
    await coordinator.stopOnException(() => {
      throw new Error('in the body');
    });
    expect(coordinator.shouldStop()).toBe(true);
    await expect(coordinator.join()).rejects.toThrow('in the body');
  });
});

describe('join', () => {
  it('waits for loops that end by themselves', async () => {
    const coordinator = new Coordinator();
    let ended = 0;
    for (const ms of [5, 10]) coordinator.register(sleep(ms).then(() => void ended++));
    await coordinator.join([sleep(1).then(() => void ended++)]);
    expect(ended).toBe(3);
    expect(coordinator.shouldStop()).toBe(false);
  });

  it('throws the error of a failed loop, which stops the others', async () => {
    const coordinator = new Coordinator();
    coordinator.register(untilStop(coordinator), 'a waiting loop');
    coordinator.register(Promise.reject(new ShoalError('SHOAL_CORRUPT', 'a bad record')));
    await expect(coordinator.join()).rejects.toThrow('a bad record');
  });

  it('names the loops that did not end within the grace period', async () => {
    const coordinator = new Coordinator();
    coordinator.register(new Promise(() => {}), 'a stuck loop');
    coordinator.register(untilStop(coordinator), 'a stoppable loop');
    coordinator.requestStop();
    await expect(coordinator.join([], { stopGracePeriodSecs: 0.02 })).rejects.toThrow(
      described(/still running: a stuck loop\n/),
    );
  });

  it('only logs them with ignoreLiveTasks', async () => {
    const lines: string[] = [];
    const coordinator = new Coordinator({ log: (line) => lines.push(line) });
    coordinator.register(new Promise(() => {}), 'a stuck loop');
    coordinator.requestStop();
    await coordinator.join([], { stopGracePeriodSecs: 0.02, ignoreLiveTasks: true });
    expect(lines).toEqual(['Stopped with loops still running: a stuck loop']);
  });
});

describe('a loop', () => {
  it('runs periodically until a stop', async () => {
    const coordinator = new Coordinator();
    let times = 0;
    coordinator.loop(() => ++times === 3 && coordinator.requestStop(), { everySecs: 0.001 });
    await coordinator.join();
    expect(times).toBe(3);
  });

  it('runs back to back without a period, and stops all loops when it fails', async () => {
    const coordinator = new Coordinator();
    let times = 0;
    coordinator.loop(() => {
      if (++times === 5) throw new Error('enough');
    });
    await expect(coordinator.join()).rejects.toThrow('enough');
  });
});
