import { expect, it } from 'vitest';
import { taskId } from '../spec/task-id.js';
import { admit, admitOrder, refusalOf } from './fence.js';
import { initialState } from './membership.js';
import { membershipSettings } from './settings.js';

const [ps, chief, worker] = [taskId('ps', 0), taskId('worker', 0), taskId('worker', 1)];
const state = initialState({
  self: {
    task: ps,
    incarnation: 5,
    first: 5,
    nonce: 'ps',
    agentAddress: 'ps:1',
    serverAddress: null,
    host: 'ps',
    pid: 1,
  },
  chief,
  contacts: [{ task: worker, address: 'w:1' }],
  settings: membershipSettings(),
  now: 0,
});
const process = (task: typeof worker, incarnation: number, nonce = `p${incarnation}`) => ({
  task,
  incarnation,
  nonce,
});

it('refuses the work of a process when work of a later one was accepted', () => {
  const first = admit(state, process(worker, 3));
  expect(first.refused).toBeUndefined();
  const second = admit(first.state, process(worker, 4));
  expect(second.refused).toBeUndefined();
  expect(admit(second.state, process(worker, 3)).refused).toBe(
    '/job:worker/task:1, incarnation 3, has been replaced by incarnation 4',
  );
});

it('accepts a process that has raised its incarnation, and its requests that were under way', () => {
  const raised = admit(admit(state, process(worker, 3, 'n')).state, process(worker, 4, 'n')).state;
  expect(refusalOf(raised, process(worker, 3, 'n'))).toBeUndefined();
  expect(refusalOf(raised, process(worker, 3, 'other'))).toBeDefined();
});

it('forgets the first incarnation of a process that has announced a lower one', () => {
  const entry = { ...state.members.get(ps)!, task: worker, incarnation: 6, nonce: 'n' };
  const fenced = admit(state, process(worker, 1000, 'n')).state;
  const announced = { ...fenced, members: new Map([...fenced.members, [worker, entry]]) };
  expect(refusalOf(announced, process(worker, 7))).toBeUndefined();
  expect(refusalOf(announced, process(worker, 5))).toBeDefined();
});

it('accepts orders of the chief only', () => {
  expect(admitOrder(state, process(worker, 1000)).refused).toMatch('is not the chief');
  const { state: ordered } = admitOrder(state, process(chief, 8));
  expect(admitOrder(ordered, process(chief, 7)).refused).toMatch('has been replaced by incarnation 8');
});

it('keeps no fence for a task that is not known', () => {
  expect(admit(state, process(taskId('worker', 77), 3)).state).toBe(state);
});
