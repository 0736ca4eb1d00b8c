import { expect, test } from 'vitest';
import type { ClusterStatus } from '../../../../distributed/cluster/agent/wire.js';
import { taskId } from '../../../../distributed/cluster/spec/task-id.js';
import { describeStatus } from './format.js';

const member = (task: string, changes: object) => ({
  task,
  incarnation: 101,
  first: 100,
  agentAddress: '127.0.0.1:2222',
  serverAddress: '127.0.0.1:3333',
  host: 'host-a',
  pid: 12,
  left: false,
  beat: 7,
  step: null,
  status: 'alive',
  silentMs: 312,
  ...changes,
});

const STATUS = {
  cluster: 'mnist',
  epoch: 3,
  chief: taskId('worker', 0),
  self: { task: taskId('worker', 0), incarnation: 100 },
  members: [
    member(taskId('worker', 0), { incarnation: 100, step: 12_345 }),
    member(taskId('ps', 0), { status: 'dead', silentMs: 61_000 }),
  ],
} as unknown as ClusterStatus;

test('the table shows what an operator asks first', () => {
  expect(describeStatus(STATUS)).toBe(
    [
      'cluster mnist · 1 of 2 tasks alive',
      'task                        status  step   restarts  last seen   host    pid',
      '/job:ps/task:0              dead    -             1  61.0 s ago  host-a   12',
      '/job:worker/task:0 (chief)  alive   12345         0  0.3 s ago   host-a   12',
    ].join('\n'),
  );
});

test('tasks that left are not missing', () => {
  const gone = member(taskId('worker', 7), { status: 'left' }) as ClusterStatus['members'][number];
  expect(describeStatus({ ...STATUS, members: [...STATUS.members, gone] })).toContain(
    'cluster mnist · 1 of 2 tasks alive, 1 left\n',
  );
});

test('--verbose adds addresses, incarnations and the epoch', () => {
  const text = describeStatus(STATUS, { verbose: true });
  expect(text).toMatch(/^cluster mnist · 1 of 2 tasks alive · epoch 3 · as seen by \/job:worker\/task:0\n/);
  expect(text).toMatch(/agent +TensorFlow +incarnation\n/);
  expect(text).toMatch(/127\.0\.0\.1:2222 +127\.0\.0\.1:3333 +101\n/);
});
