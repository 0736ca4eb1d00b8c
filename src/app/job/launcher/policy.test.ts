import { describe, expect, test } from 'vitest';
import { type EndedRun, type Ending, judgeEnding } from './policy.js';

const RULES = { maxRestarts: 3, steadyMs: 30_000 };
const exit = (code: number): Ending => ({ code, signal: null });
const judge = (ending: Ending, run: Partial<EndedRun> = {}) =>
  judgeEnding({ job: 'worker', uptimeMs: 100, restarts: 0, ...run, ending }, RULES);

describe('a task whose process ended', () => {
  test('is finished when a worker exits with 0', () => {
    expect(judge(exit(0))).toEqual({ kind: 'finished' });
  });

  test('is restarted when a ps exits with 0: only the launcher stops a ps', () => {
    expect(judge(exit(0), { job: 'ps' }).kind).toBe('restart');
  });

  test('is restarted when a signal killed it', () => {
    expect(judge({ code: null, signal: 'SIGKILL' })).toEqual({
      kind: 'restart',
      why: 'was killed by SIGKILL',
    });
  });

  test('is restarted when it exits with the code for a retry', () => {
    expect(judge(exit(75)).kind).toBe('restart');
  });

  test('has failed when it exits with an error soon after the start', () => {
    expect(judge(exit(1))).toMatchObject({ kind: 'failed', code: 1 });
  });

  test('is restarted when it exits with an error after a long run', () => {
    expect(judge(exit(1), { uptimeMs: 30_000 }).kind).toBe('restart');
  });

  test('has failed when it exits with an error after training, which a restart would begin again', () => {
    const run = { uptimeMs: 1e9, isOver: true };
    expect(judge(exit(1), run)).toEqual({ kind: 'failed', code: 1, why: 'exited with 1' });
    expect(judge(exit(75), run).kind).toBe('restart');
  });

  test.each([2, 76])('has failed with code %i however long it ran', (code) => {
    expect(judge(exit(code), { uptimeMs: 1e9 })).toMatchObject({ kind: 'failed', code });
  });

  test('has failed after the allowed restarts, with the exit code of a shell', () => {
    expect(judge({ code: null, signal: 'SIGKILL' }, { restarts: 3 })).toEqual({
      kind: 'failed',
      code: 137,
      why: 'was killed by SIGKILL; it failed again after 3 restarts',
    });
  });
});
