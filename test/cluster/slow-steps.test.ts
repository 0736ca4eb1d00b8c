/** Steps that take longer than any fixed timeout. */
import { expect, it } from 'vitest';
import { TaskProcesses } from './processes.js';

const STEP_MS = 18_000;
const DEAD_AFTER_MS = 2000;
const TIMEOUT_MS = 240_000;

it('complete and are checkpointed, and a frozen ps cancels them at once', { timeout: 600_000 }, async () => {
  await using tasks = await TaskProcesses.create('slow-step-job.ts', 2, 1, {
    SLOW_STEP_MS: String(STEP_MS),
    SLOW_STEPS: '4',
    SHOAL_DEAD_AFTER_MS: String(DEAD_AFTER_MS),
  });
  tasks.start('ps', 0);
  const frozen = tasks.start('ps', 1);
  const chief = tasks.start('worker', 0);
  await chief.waitForOutput(/saved model\.ckpt-[1-9]/, TIMEOUT_MS);
  expect(chief.output()).not.toMatch(/a step failed|saving .* failed/);
  const begun = performance.now();
  frozen.child.kill('SIGSTOP');
  await chief.waitForOutput(/a step failed: .*was lost/, TIMEOUT_MS);
  // Before the step could have completed, and long before its timeout.
  expect(performance.now() - begun).toBeLessThan(STEP_MS);
  frozen.child.kill('SIGCONT');
  expect(await chief.exit, chief.output()).toBe(0);
  expect(chief.output()).toMatch(/done at step 4; .* w = 4/);
});

it('fail the job when they always time out, and the error names the setting', {
  timeout: 300_000,
}, async () => {
  await using tasks = await TaskProcesses.create('slow-step-job.ts', 1, 1, {
    SLOW_STEP_MS: '10000',
    SLOW_STEP_TIMEOUT_SECS: '2',
  });
  tasks.start('ps', 0);
  const chief = tasks.start('worker', 0);
  expect(await chief.exit).toBe(1);
  expect(chief.output()).toMatch(/failed: .*timed out 3 times.* more than 2 s.*train\.stepTimeoutSecs/s);
});
