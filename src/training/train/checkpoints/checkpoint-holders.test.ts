import { describe, expect, it } from 'vitest';
import type { Manifest } from '../../../distributed/checkpoint/format/manifest.js';
import type { Member, MemberStatus } from '../../../distributed/cluster/membership/types.js';
import { type TaskId, taskId } from '../../../distributed/cluster/spec/task-id.js';
import { CheckpointHolders, type HoldersOptions } from './checkpoint-holders.js';

const CHIEF = taskId('chief', 0);
const [PS, WORKER] = [taskId('ps', 0), taskId('worker', 0)];

/** The holders of a cluster of three tasks with these statuses; default: alive. */
function holders(
  statuses: Partial<Record<TaskId, MemberStatus>> = {},
  finished: readonly TaskId[] = [],
): CheckpointHolders {
  const tasks = [CHIEF, PS, WORKER];
  const members = tasks.map(
    (task) => ({ task, status: statuses[task] ?? 'alive', incarnation: 1 }) as unknown as Member,
  );
  const server = {
    spec: { tasks: tasks.map((id) => ({ id })) },
    task: { task: CHIEF, members: () => members },
    finished: { isAssumed: (task: TaskId) => finished.includes(task) },
  } as unknown as HoldersOptions['server'];
  const made = new CheckpointHolders({
    server,
    store: { stat: async () => undefined },
    waitMs: 50,
    log: () => {},
  });
  made.begin();
  return made;
}

describe('a wait for the places of a checkpoint', () => {
  it('ignores places that name no task, as of a checkpoint saved by one process', async () => {
    expect(await holders().wait(['here', 'ps/0'], { why: 'x' })).toBe(false);
  });
});

/** A survey that found a checkpoint. */
const FOUND = { manifests: [{} as Manifest], unreadable: [] };

it('a survey lacks tasks that are dead or did not answer, but not those that left', () => {
  expect(holders({ [PS]: 'dead' }).missingFrom({ ...FOUND, unanswered: ['worker/0'] })).toEqual([PS, WORKER]);
  expect(holders({ [WORKER]: 'left' }).missingFrom({ ...FOUND, unanswered: [] })).toEqual([]);
});

it('a survey does not lack a worker that has finished, unless it found no checkpoint', () => {
  const dead = { [WORKER]: 'dead' } as const;
  expect(holders(dead, [WORKER]).shouldWait({ ...FOUND, unanswered: [] })).toBe(false);
  expect(holders({}, [WORKER]).missingFrom({ ...FOUND, unanswered: ['worker/0'] })).toEqual([WORKER]);
  const none = { manifests: [], unreadable: [], unanswered: [] };
  expect(holders(dead, [WORKER]).missingFrom(none)).toEqual([WORKER]);
});

it('a survey that found no checkpoint lacks tasks that left too: they may hold all checkpoints', () => {
  const survey = { manifests: [], unreadable: [], unanswered: [] };
  expect(holders({ [WORKER]: 'left' }).missingFrom(survey)).toEqual([WORKER]);
  expect(holders({ [WORKER]: 'left' }).shouldWait(survey)).toBe(true);
});

it('a task that left is waited for if its place holds a file of the checkpoint', async () => {
  const begun = performance.now();
  expect(await holders({ [WORKER]: 'left' }).wait(['worker/0'], { why: 'x' })).toBe(false);
  expect(performance.now() - begun).toBeGreaterThan(40);
});
