import { expect, test } from 'vitest';
import { TaskProcesses } from './processes.js';

test('a session that met a dead ps can be closed', { timeout: 600_000 }, async () => {
  await using tasks = await TaskProcesses.create('sync-job.ts', 2, 1);
  tasks.start('ps', 0);
  const lost = tasks.start('ps', 1);
  const worker = tasks.start('worker', 0, [], 'meet-dead-ps.ts');
  await worker.said(/ready/);
  lost.child.kill('SIGKILL');
  await worker.exit;
  expect(worker.output()).toBe('ready\nclosed\n');
});

test('a session whose ps is frozen is let go of, and what it waits for is told', {
  timeout: 600_000,
}, async () => {
  await using tasks = await TaskProcesses.create('sync-job.ts', 1, 1);
  const ps = tasks.start('ps', 0);
  const worker = tasks.start('worker', 0, [], 'close-late.ts');
  await worker.said(/ready/);
  ps.child.kill('SIGSTOP');
  worker.child.kill('SIGUSR2');
  expect(await worker.exit, worker.output()).toBe(0);
  expect(worker.output()).toMatch(
    /the session is left to itself: Closing a session did not end .*: it waits for TensorFlow’s own close\n[\s\S]*closed\n$/,
  );
});
