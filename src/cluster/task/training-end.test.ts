/** When ps and evaluators consider training finished. */
import { expect, it } from 'vitest';
import type { Member, Status } from '../membership/types.js';
import { taskId } from '../spec/task-id.js';
import { TrainingEnd } from './training-end.js';

/** The index of a worker that the cluster does not list. */
const ELASTIC = 2;

/** Workers by their statuses; `finished` names those that reported the end of their training, `preempted` the others. */
function cluster(finished: readonly number[] = [], preempted: readonly number[] = []) {
  let statuses: readonly Status[] = [];
  let now = 0;
  const member = (status: Status, index: number) =>
    ({ task: taskId('worker', index), incarnation: 1, nonce: '', status }) as Member;
  const end = new TrainingEnd({
    members: () => statuses.map(member),
    finished: {
      has: ({ task }) => finished.some((index) => task === taskId('worker', index)),
      returns: ({ task }) => preempted.some((index) => task === taskId('worker', index)),
    },
    isListed: (task) => task !== taskId('worker', ELASTIC),
    lostWorkerMs: 1000,
    now: () => now,
  });
  return (atMs: number, ...next: readonly Status[]) => {
    now = atMs;
    statuses = next;
    return end.state();
  };
}

it('is not over before a worker joined, nor while one is running', () => {
  const look = cluster();
  expect(look(0)).toEqual({ kind: 'training' });
  expect(look(1, 'left', 'alive')).toEqual({ kind: 'training' });
  expect(look(5000, 'dead', 'suspect')).toEqual({ kind: 'training' });
});

it('is over when all have left', () => {
  expect(cluster()(0, 'left', 'left')).toEqual({ kind: 'over', lost: [], finished: true });
});

it('is over when a dead worker had reported the end of its training', () => {
  expect(cluster([1])(0, 'left', 'dead')).toEqual({ kind: 'over', lost: [], finished: true });
});

it('waits for a dead worker, then is over and finished by the others', () => {
  const look = cluster();
  const lost = [taskId('worker', 1)];
  expect(look(100, 'left', 'dead')).toEqual({ kind: 'awaiting', tasks: lost, leftMs: 1000 });
  expect(look(1099, 'left', 'dead')).toEqual({ kind: 'awaiting', tasks: lost, leftMs: 1 });
  expect(look(1100, 'left', 'dead')).toEqual({ kind: 'over', lost, finished: true });
});

it('waits for a preempted worker', () => {
  const look = cluster([], [1]);
  expect(look(0, 'left', 'left')).toMatchObject({ kind: 'awaiting', tasks: [taskId('worker', 1)] });
  expect(look(1000, 'left', 'left')).toMatchObject({ kind: 'over', lost: [taskId('worker', 1)] });
});

it('does not wait for an elastic worker', () => {
  expect(cluster()(0, 'left', 'left', 'dead')).toEqual({ kind: 'over', lost: [], finished: true });
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
