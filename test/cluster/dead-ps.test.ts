import { expect, test } from 'vitest';
import { TaskProcesses } from './processes.js';

test('a session that met a dead ps can be closed', { timeout: 180_000 }, async () => {
  await using tasks = await TaskProcesses.create('sync-job.ts', 2, 1);
  tasks.start('ps', 0);
  const lost = tasks.start('ps', 1);
  const worker = tasks.start('worker', 0, [], 'meet-dead-ps.ts');
  await worker.said(/ready/);
  lost.child.kill('SIGKILL');
  await worker.exit;
  expect(worker.output()).toBe('ready\nclosed\n');
});
