/** After a suspension no run begins before a ps has answered whether this process was replaced. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ShoalError } from '../../../base/errors/errors.js';
import { taskId } from '../spec/task-id.js';
import type { ClusterTask } from '../task/cluster-task.js';
import { SuspensionGuard } from './suspension-guard.js';

const LIMIT_MS = 500;
const PS = taskId('ps', 0);

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** A guard, and the answers that its questions wait for. */
function guarded() {
  const answers: { readonly give: (error?: ShoalError) => void }[] = [];
  const confirmCurrent = () =>
    new Promise<void>((resolve, reject) => {
      answers.push({ give: (error) => (error ? reject(error) : resolve()) });
    });
  const task = { task: '/job:worker/task:0', confirmCurrent } as unknown as ClusterTask;
  const guard = new SuspensionGuard(task, [PS], LIMIT_MS);
  return { guard, answers };
}

/** The clock of `performance` moves with the timers only: a suspension is a jump without them. */
function jump(ms: number): void {
  const now = performance.now.bind(performance);
  vi.spyOn(performance, 'now').mockImplementation(() => now() + ms);
}

it('a run without a suspension asks nothing', () => {
  const { guard, answers } = guarded();
  vi.advanceTimersByTime(2000);
  expect(guard.confirm()).toBeUndefined();
  expect(answers).toEqual([]);
  guard.close();
});

it('all runs after a suspension wait for the answer, also those that begin while another one waits', async () => {
  const { guard, answers } = guarded();
  jump(10_000);
  const runs = [guard.confirm(), guard.confirm(), guard.confirm()];
  expect(runs.every((run) => run !== undefined)).toBe(true);
  expect(answers).toHaveLength(1);
  const replaced = new ShoalError('SHOAL_FORBIDDEN', 'it was replaced');
  answers[0]?.give(replaced);
  for (const run of runs) await expect(run).rejects.toBe(replaced);
  // It stays in doubt.
  expect(guard.confirm()).toBeDefined();
  guard.close();
  answers[1]?.give();
});

it('runs continue after the answer', async () => {
  const { guard, answers } = guarded();
  jump(10_000);
  const run = guard.confirm();
  answers[0]?.give();
  await run;
  expect(guard.confirm()).toBeUndefined();
  guard.close();
});
