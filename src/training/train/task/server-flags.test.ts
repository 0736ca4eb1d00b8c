/** The flags of a program that describes its cluster itself, as most programs for TensorFlow 1 do. */
import { expect, test } from 'vitest';
import { answerOf } from '../../../../test/child.js';
import { choosePorts } from '../../../app/job/launcher/ports.js';
import { flagsOfSettings } from '../../../distributed/cluster/spec/config-sources.js';

test('Server.start({ cluster }) listens where --listen says', async () => {
  const [first, second, moved] = await choosePorts('127.0.0.1', 3);
  const options = {
    cluster: { ps: [`127.0.0.1:${first}`], worker: [`127.0.0.1:${second}`] },
    jobName: 'ps',
    taskIndex: 0,
    argv: ['--listen', `127.0.0.1:${moved}`, '--job_name=worker', '--ps_hosts=10.0.0.1:1', '--rate=0.5'],
  };
  const answer = await answerOf<{ task: string; address: string }>(`
    const { mkdtempSync, rmSync } = await import('node:fs');
    const directory = mkdtempSync(\`\${(await import('node:os')).tmpdir()}/shoal-server-\`);
    const server = await tf.train.Server.start({ ...${JSON.stringify(options)}, directory, log: () => {} });
    console.log(JSON.stringify({ task: server.task.task, address: server.task.agentAddress }));
    await server.close();
    rmSync(directory, { recursive: true });`);
  expect(answer).toEqual({ task: '/job:ps/task:0', address: `127.0.0.1:${moved}` });
});

test('the flags that say which tasks there are, and those of the program, are not read', () => {
  expect(
    flagsOfSettings([
      '--certs=c',
      '--worker_hosts=a:1',
      '--task_index',
      '3',
      '--config=model.json',
      '--rate=1',
    ]),
  ).toEqual(['--certs=c']);
});
