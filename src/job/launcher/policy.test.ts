import { describe, expect, test } from 'vitest';
import { type Ending, judgeEnding } from './policy.js';

const RULES = { maxRestarts: 3, steadyMs: 30_000 };
const exit = (code: number): Ending => ({ code, signal: null });
const judge = (ending: Ending, life: { job?: string; uptimeMs?: number; restarts?: number } = {}) =>
  judgeEnding({ job: 'worker', uptimeMs: 100, restarts: 0, ...life, ending }, RULES);

describe('a task whose process ended', () => {
  test('is finished when a worker exits with 0', () => {
    expect(judge(exit(0))).toEqual({ kind: 'finished' });
  });

  test('is relaunched when a ps exits with 0: a ps is not done by itself', () => {
    expect(judge(exit(0), { job: 'ps' }).kind).toBe('restart');
  });

  test('is relaunched when a signal ended it', () => {
    expect(judge({ code: null, signal: 'SIGKILL' })).toEqual({
      kind: 'restart',
      why: 'was ended by SIGKILL',
    });
  });

  test('is relaunched when it asks to be tried elsewhere', () => {
    expect(judge(exit(75)).kind).toBe('restart');
  });

  test('has failed when an error came soon after the start', () => {
    expect(judge(exit(1))).toMatchObject({ kind: 'failed', code: 1 });
  });

  test('is relaunched when an error came after a steady life', () => {
    expect(judge(exit(1), { uptimeMs: 30_000 }).kind).toBe('restart');
  });

  test.each([2, 76])('has failed with %i however long it lived', (code) => {
    expect(judge(exit(code), { uptimeMs: 1e9 })).toMatchObject({ kind: 'failed', code });
  });

  test('has failed when it was relaunched as often as is allowed, with the code of a shell', () => {
    expect(judge({ code: null, signal: 'SIGKILL' }, { restarts: 3 })).toEqual({
      kind: 'failed',
      code: 137,
      why: 'was ended by SIGKILL; relaunched 3 times in vain',
    });
  });
});
