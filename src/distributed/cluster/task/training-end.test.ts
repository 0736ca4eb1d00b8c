/** When ps and evaluators consider training finished. */
import { expect, it } from 'vitest';
import type { Member, MemberStatus } from '../membership/types.js';
import { parseTaskId, taskId } from '../spec/task-id.js';
import type { Stopped } from './finished-workers.js';
import { TrainingEnd } from './training-end.js';

/** The index of a worker that the cluster does not list. */
const ELASTIC = 2;

interface Reports {
  readonly stopped?: Readonly<Record<number, Stopped>>;
  /** Default: all. */
  readonly begun?: readonly number[];
  readonly lostWorkerMs?: number;
}

/** Workers by their statuses; `finished` names those that reported the end of their training, `preempted` the others. */
function cluster(
  finished: readonly number[] = [],
  preempted: readonly number[] = [],
  { stopped = {}, begun, lostWorkerMs = 1000 }: Reports = {},
) {
  let statuses: readonly MemberStatus[] = [];
  let now = 0;
  const member = (status: MemberStatus, index: number) =>
    ({ task: taskId('worker', index), incarnation: 1, nonce: '', status }) as Member;
  const end = new TrainingEnd({
    members: () => statuses.map(member),
    finished: {
      has: ({ task }) => finished.some((index) => task === taskId('worker', index)),
      returns: ({ task }) => preempted.some((index) => task === taskId('worker', index)),
      stopped: ({ task }) => stopped[parseTaskId(task).index],
      hasBegun: ({ task }) => begun?.includes(parseTaskId(task).index) ?? true,
    },
    isListed: (task) => task !== taskId('worker', ELASTIC),
    lostWorkerMs,
    now: () => now,
  });
  return (atMs: number, ...next: readonly MemberStatus[]) => {
    now = atMs;
    statuses = next;
    return end.state();
  };
}

it('is not over before a worker joined, nor while one is running', () => {
  const look = cluster();
  expect(look(0)).toEqual({ kind: 'empty' });
  expect(look(1, 'left', 'alive')).toEqual({ kind: 'training' });
  expect(look(5000, 'dead', 'suspect')).toEqual({ kind: 'training' });
});

it('is over when all have left', () => {
  expect(cluster()(0, 'left', 'left')).toEqual({ kind: 'over', lost: [], stopped: [], finished: true });
});

it('is over when a dead worker had reported the end of its training', () => {
  expect(cluster([1])(0, 'left', 'dead')).toEqual({ kind: 'over', lost: [], stopped: [], finished: true });
});

it('waits for a dead worker, then is over and finished by the others', () => {
  const look = cluster();
  const lost = [taskId('worker', 1)];
  expect(look(100, 'left', 'dead')).toEqual({ kind: 'awaiting', tasks: lost, leftMs: 1000, atStart: false });
  expect(look(1099, 'left', 'dead')).toEqual({ kind: 'awaiting', tasks: lost, leftMs: 1, atStart: false });
  expect(look(1100, 'left', 'dead')).toEqual({ kind: 'over', lost, stopped: [], finished: true });
});

it('waits for a preempted worker', () => {
  const look = cluster([], [1]);
  expect(look(0, 'left', 'left')).toMatchObject({ kind: 'awaiting', tasks: [taskId('worker', 1)] });
  expect(look(1000, 'left', 'left')).toMatchObject({ kind: 'over', lost: [taskId('worker', 1)] });
});

it('does not wait for an elastic worker', () => {
  expect(cluster()(0, 'left', 'left', 'dead')).toEqual({
    kind: 'over',
    lost: [],
    stopped: [],
    finished: true,
  });
});

it('is not finished when all died', () => {
  const look = cluster();
  look(0, 'dead', 'dead');
  expect(look(1000, 'dead', 'dead')).toMatchObject({ kind: 'over', finished: false });
});

it('restarts the wait for a worker that came back and died again', () => {
  const look = cluster();
  look(0, 'left', 'dead');
  expect(look(900, 'left', 'alive')).toEqual({ kind: 'training' });
  expect(look(1500, 'left', 'dead')).toMatchObject({ kind: 'awaiting', leftMs: 1000 });
});

it('is not finished when the only worker was interrupted or failed', () => {
  for (const how of ['interrupted', 'failed'] as const) {
    const stopped = [{ task: taskId('worker', 0), how }];
    expect(cluster([], [], { stopped: { 0: how } })(0, 'left')).toEqual({
      kind: 'over',
      lost: [],
      stopped,
      finished: false,
    });
    expect(cluster([], [], { stopped: { 0: how } })(0, 'left', 'left')).toMatchObject({
      stopped,
      finished: true,
    });
  }
});

it('waits a minute for workers that died before they trained, and longer for others', () => {
  const failed = cluster([], [], { begun: [], lostWorkerMs: 300_000 });
  failed(0, 'alive', 'alive');
  expect(failed(5000, 'dead', 'dead')).toMatchObject({ kind: 'awaiting', leftMs: 60_000, atStart: true });
  expect(failed(65_000, 'dead', 'dead')).toMatchObject({ kind: 'over', finished: false });

  const one = cluster([], [], { begun: [1], lostWorkerMs: 300_000 });
  one(0, 'alive', 'alive');
  expect(one(5000, 'dead', 'dead')).toMatchObject({ leftMs: 300_000, atStart: false });

  const slow = cluster([], [], { begun: [], lostWorkerMs: 300_000 });
  slow(0, 'alive');
  slow(70_000, 'alive');
  expect(slow(75_000, 'dead')).toMatchObject({ leftMs: 300_000, atStart: false });
});
