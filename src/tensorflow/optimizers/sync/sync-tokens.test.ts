import { describe, expect, it } from 'vitest';
import { Graph } from '../../graph/graph.js';
import { Session } from '../../session/session.js';
import { createGlobalStep } from '../../variables/global-step.js';
import { SyncTokens, tokenCounts } from './sync-tokens.js';

describe('tokenCounts', () => {
  it.each([
    ['one for each worker', 3, [true, true, true], [1, 1, 1]],
    ['also for backups', 2, [true, true, true], [1, 1, 1]],
    ['more for each if a step needs more gradients than workers', 5, [true, true, true], [2, 2, 1]],
    ['those of an absent worker for the others', 3, [true, false, true], [2, 0, 1]],
    ['none for an absent backup', 2, [true, false, true], [1, 0, 1]],
    ['all for the only worker', 3, [false, false, true], [0, 0, 3]],
  ] as const)('gives %s', (_, required, present, expected) => {
    expect([...tokenCounts(required, present)]).toEqual(expected);
  });
});

describe('SyncTokens', () => {
  const build = (own: string, replicas = 2) => {
    const graph = new Graph();
    return graph.asDefault(() => {
      const globalStep = createGlobalStep();
      const tokens = new SyncTokens(globalStep, { own, replicas, required: replicas });
      return { graph, globalStep, tokens, take: tokens.take(), add: tokens.add(), topUp: tokens.topUp() };
    });
  };

  it('lets a worker take its own tokens only, with the step at that time', async () => {
    const { graph, globalStep, tokens, take, add, topUp } = build('/job:worker/task:1');
    await using session = await Session.create({ graph });
    await session.run(globalStep.initializer);
    const feeds = (counts: number[]) => ({ feeds: [[tokens.counts, Int32Array.from(counts)]] as const });
    await session.run(topUp, feeds([1, 0]));
    await expect(session.run(take, { timeoutMs: 300 })).rejects.toMatchObject({
      code: 'SHOAL_TF_DEADLINE_EXCEEDED',
    });
    await session.run(topUp, feeds([1, 1]));
    await session.run(topUp, feeds([1, 1]));
    await session.run(graph.asDefault(() => globalStep.assign(7n)));
    expect((await session.run(take, { timeoutMs: 10_000 })).item()).toBe(7n);
    await expect(session.run(take, { timeoutMs: 300 })).rejects.toThrow();
    await session.run(add, feeds([0, 2]));
    await session.run(take, { timeoutMs: 10_000 });
    await session.run(take, { timeoutMs: 10_000 });
  });

  it('knows the workers of a cluster with a chief', () => {
    const { tokens } = build('/job:chief/task:0', 3);
    expect(tokens.workers).toEqual(['/job:chief/task:0', '/job:worker/task:0', '/job:worker/task:1']);
  });

  it('rejects a worker beyond the number of replicas', () => {
    expect(() => build('/job:worker/task:2')).toThrow(/task 2 of job 'worker'.*only 2 replicas/);
  });
});
