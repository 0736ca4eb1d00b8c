import { expect, test } from 'vitest';
import { taskId } from '../spec/task-id.js';
import { initialState, reduceMembership } from './membership.js';
import { membershipSettings } from './settings.js';
import type { Event, Membership } from './types.js';

const SETTINGS = membershipSettings({ heartbeatMs: 200, deadAfterMs: 3000 });

function entry(task: ReturnType<typeof taskId>, address: string) {
  const identity = { task, incarnation: 1, first: 1, nonce: `n-${address}`, host: 'h', pid: 1 };
  return { ...identity, agentAddress: address, serverAddress: null };
}

const [ps0, ps1] = [entry(taskId('ps', 0), 'a:1'), entry(taskId('ps', 1), 'b:1')];

function step(state: Membership, event: Event) {
  const { state: next, effects } = reduceMembership(state, event);
  return { state: next, calls: effects.map(({ type }) => type) };
}

test('a peer that drops a call while dying is probed again at the next tick, long before its silence shows', () => {
  const born = initialState({ self: ps0, chief: undefined, contacts: [], settings: SETTINGS, now: 0 });
  const from = { ...ps1, left: false, beat: 1, step: null };
  const message = { from, digest: '', lost: [], members: [] };
  let { state } = step(born, { type: 'heard', now: 0, via: 'request', message });
  const peer = state.members.get(ps1.task)!;
  const disconnected = step(state, { type: 'disconnected', now: 10, peer });
  expect(disconnected.calls).toEqual(['probe']);
  const dropped: Event = { type: 'unreachable', now: 11, peer, failure: 'reset', fresh: true };
  const suspected = step(disconnected.state, dropped);
  expect(suspected.calls).toEqual(['suspected']);
  const tick = step(suspected.state, { type: 'tick', now: 100 });
  expect(tick.calls).toContain('probe');
  const refused: Event = { type: 'unreachable', now: 101, peer, failure: 'refused', fresh: true };
  ({ state } = step(tick.state, refused));
  expect(state.members.get(ps1.task)?.status).toBe('dead');
});
