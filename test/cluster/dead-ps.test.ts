import { expect, test } from 'vitest';
import { TaskProcesses } from './processes.js';

test('a session with a dead ps can be closed', { timeout: 600_000 }, async () => {
  await using tasks = await TaskProcesses.create('sync-job.ts', 2, 1);
  tasks.start('ps', 0);
  const lost = tasks.start('ps', 1);
  const worker = tasks.start('worker', 0, [], 'meet-dead-ps.ts');
  await worker.waitForOutput(/ready/);
  lost.child.kill('SIGKILL');
  await worker.exit;
  expect(worker.output()).toBe('ready\nclosed\n');
});

test.each([
  ['direct', 'succeeds at once', /^ready\nclosed\n$/],
  [
    'grpc',
    'is abandoned, and the log states what it waits for',
    /the session could not be closed: Closing a session timed out .*, waiting for TensorFlow’s own close\n[\s\S]*closed\n$/,
  ],
])(
  'closing a session of the engine %s whose ps is frozen %s',
  { timeout: 600_000 },
  async (engine, _, output) => {
    await using tasks = await TaskProcesses.create('sync-job.ts', 1, 1, { SHOAL_ENGINE: engine });
    const ps = tasks.start('ps', 0);
    const worker = tasks.start('worker', 0, [], 'close-late.ts');
    await worker.waitForOutput(/ready/);
    ps.child.kill('SIGSTOP');
    worker.child.kill('SIGUSR2');
    expect(await worker.exit, worker.output()).toBe(0);
    expect(worker.output()).toMatch(output);
  },
);
