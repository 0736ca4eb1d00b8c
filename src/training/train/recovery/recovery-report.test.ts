import { expect, it } from 'vitest';
import type { Member } from '../../../distributed/cluster/membership/types.js';
import { taskId } from '../../../distributed/cluster/spec/task-id.js';
import { TaskEvents } from '../../../distributed/cluster/task/task-events.js';
import type { RecoveryMode } from './recovery-mode.js';
import { describeRecovery, describeRestored, RecoveryReport } from './recovery-report.js';

const member = (job: string, index: number, step: number | null = null) =>
  ({ task: taskId(job, index), step }) as Member;

function report(mode?: RecoveryMode, now = () => 0) {
  const events = new TaskEvents();
  const lostSteps: number[] = [];
  const members = () => [member('ps', 0), member('worker', 0, 120), member('worker', 1, 123)];
  const phases: object[] = [];
  const made = new RecoveryReport({
    task: { events, members },
    mode,
    onLostSteps: (steps) => lostSteps.push(steps),
    onPhases: (durations) => phases.push(durations),
    now,
  });
  return { made, events, lostSteps, phases };
}

it('names the lost tasks, the checkpoint, its places and the repeated steps', () => {
  const { made, events, lostSteps } = report();
  events.emit({ type: 'lost', member: member('ps', 1), why: 'refused' });
  made.begin();
  made.restored({ manifest: { prefix: 'model.ckpt-100', step: 100 }, places: ['ps/0', 'worker/0'] });
  expect(describeRecovery(made.end(4210))).toBe(
    'the cluster is complete again after 4.2 s; lost /job:ps/task:1; exact recovery: restored model.ckpt-100 from ps/0, worker/0; 23 steps are repeated; training continues',
  );
  expect(lostSteps).toEqual([23]);
});

it('does not name a worker that was lost and back before', () => {
  const { made, events } = report();
  events.emit({ type: 'lost', member: member('worker', 0), why: 'refused' });
  events.emit({ type: 'back', member: member('worker', 0), replaced: true });
  events.emit({ type: 'lost', member: member('worker', 1), why: 'refused' });
  events.emit({ type: 'lost', member: member('ps', 1), why: 'refused' });
  made.begin();
  events.emit({ type: 'back', member: member('worker', 1), replaced: true });
  events.emit({ type: 'back', member: member('ps', 1), replaced: true });
  expect(made.end(1000).lost).toEqual([taskId('ps', 1), taskId('worker', 1)]);
});

it('of a task that starts is about a checkpoint that it has restored while others were training', () => {
  const { made, lostSteps } = report();
  expect(made.started()).toBeUndefined();
  const places = ['ps/0', 'worker/0'];
  made.restored({ manifest: { prefix: 'model.ckpt-123', step: 123 }, places });
  expect(made.started()).toBeUndefined();
  made.restored({ manifest: { prefix: 'model.ckpt-100', step: 100 }, places });
  const restored = made.started();
  expect(restored && describeRestored(restored)).toBe(
    'restored model.ckpt-100 from ps/0, worker/0; 23 steps are repeated',
  );
  expect(made.started()).toBeUndefined();
  expect(lostSteps).toEqual([23]);
});

it('counts from the step that was read before the restore, which no task had reported', () => {
  const { made, events, lostSteps } = report();
  events.emit({ type: 'lost', member: member('ps', 1), why: 'refused' });
  made.begin();
  made.reached(131);
  made.restored({ manifest: { prefix: 'model.ckpt-100', step: 100 }, places: ['ps/0'] });
  expect(made.end(1).restored?.steps).toBe(31);
  // A later recovery begins with what the tasks report.
  made.begin();
  made.restored({ manifest: { prefix: 'model.ckpt-100', step: 100 }, places: ['ps/0'] });
  expect(made.end(1).restored?.steps).toBe(23);
  // A chief that starts while others train.
  made.reached(140);
  made.restored({ manifest: { prefix: 'model.ckpt-100', step: 100 }, places: ['ps/0'] });
  expect(made.started()?.steps).toBe(40);
  expect(lostSteps).toEqual([31, 23, 40]);
});

it('is about one recovery only', () => {
  const { made, events } = report();
  events.emit({ type: 'lost', member: member('ps', 1), why: 'refused' });
  made.begin();
  made.restored({ manifest: { prefix: 'model.ckpt-100', step: 100 }, places: ['ps/0'] });
  made.end(1);
  made.begin();
  expect(describeRecovery(made.end(500))).toBe(
    'the cluster is complete again after 0.5 s; training continues',
  );
});

it('of a partial recovery names the restored tasks, and repeats steps only if the global step went back', () => {
  const { made, events, lostSteps } = report('partial');
  events.emit({ type: 'lost', member: member('ps', 1), why: 'refused' });
  const manifest = { prefix: 'model.ckpt-100', step: 100 };
  const part = { manifest, places: ['ps/0'], tasks: [taskId('ps', 1)] };
  made.begin();
  made.restored({ ...part, hasGlobalStep: false });
  const line = describeRecovery(made.end(1000));
  expect(line).toContain(
    'partial recovery: restored model.ckpt-100 on /job:ps/task:1 only from ps/0; 23 steps are lost there',
  );
  expect(lostSteps).toEqual([]);
  made.begin();
  made.restored({ ...part, hasGlobalStep: true });
  expect(describeRecovery(made.end(1000))).toContain('only from ps/0; 23 steps are repeated');
  expect(lostSteps).toEqual([23]);
});

it('measures the phases, of the last restore if there were several', () => {
  let at = 1000;
  const { made, events, phases } = report(undefined, () => at);
  const after = (ms: number, what: () => void) => {
    at += ms;
    what();
  };
  const isBack = () => events.emit({ type: 'back', member: member('ps', 1), replaced: true });
  const restored = () =>
    made.restored({ manifest: { prefix: 'model.ckpt-100', step: 100 }, places: ['ps/0'] });
  made.begin();
  after(200, isBack);
  after(5, () => made.found());
  after(300, isBack);
  after(10, () => made.found());
  after(40, restored);
  after(7, () => made.end(562));
  expect(phases).toEqual([{ wait: 505, find: 10, restore: 40, resume: 7 }]);
});

it('has no phase of a restore if nothing is restored', () => {
  let at = 0;
  const { made, events, phases } = report(undefined, () => at);
  made.begin();
  at += 30;
  events.emit({ type: 'back', member: member('ps', 1), replaced: false });
  at += 12;
  made.end(42);
  expect(phases).toEqual([{ wait: 30, find: 0, restore: 0, resume: 12 }]);
});
