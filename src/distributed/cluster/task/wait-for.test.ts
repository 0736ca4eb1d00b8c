import { describe, expect, it } from 'vitest';
import type { Member, MemberStatus } from '../membership/types.js';
import { taskId } from '../spec/task-id.js';
import { TaskEvents } from './task-events.js';
import { waitForMembers } from './wait-for.js';

const ps = taskId('ps', 0);

function place() {
  const member: Member = {
    task: ps,
    incarnation: 1,
    nonce: 'n',
    first: 1,
    agentAddress: 'a:1',
    serverAddress: null,
    host: 'h',
    pid: 1,
    left: false,
    beat: 0,
    step: null,
    status: 'suspect',
    lastSeen: 0,
    pendingEvent: undefined,
  };
  let status: MemberStatus = 'suspect';
  const events = new TaskEvents();
  const become = (next: MemberStatus) => {
    status = next;
  };
  const now = () => ({ ...member, status });
  return { task: taskId('worker', 0), events, members: () => [now()], become, now };
}

describe('waitFor', () => {
  it('ends when a suspect is trusted again', async () => {
    const here = place();
    const waiting = waitForMembers(here, [ps], { timeoutMs: 60_000 }, () => undefined);
    here.become('alive');
    here.events.emit({ type: 'trusted', member: here.now() });
    await waiting;
  });

  it('rechecks with each progress line, even without an event', async () => {
    const here = place();
    const waiting = waitForMembers(here, [ps], { timeoutMs: 60_000, progressMs: 5 }, () => undefined);
    here.become('alive');
    await waiting;
  });

  it('does not fail at the deadline when no task is missing', async () => {
    const here = place();
    const waiting = waitForMembers(here, [ps], { timeoutMs: 5 }, () => undefined);
    here.become('alive');
    await waiting;
  });

  it('names the missing tasks and the reasons, in its progress and its error', async () => {
    const lines: string[] = [];
    const options = { timeoutMs: 20, quietMs: 0, onProgress: (line: string) => lines.push(line) };
    const waiting = waitForMembers(place(), [ps], options, () => 'nothing listens there');
    await expect(waiting).rejects.toMatchObject({
      code: 'SHOAL_TIMEOUT',
      message: expect.stringContaining('waiting for /job:ps/task:0 (nothing listens there)'),
    });
    expect(lines).toEqual(['/job:worker/task:0 waits for /job:ps/task:0 (nothing listens there) · 0 of 0 s']);
  });

  it('reports nothing while the wait is short', async () => {
    const here = place();
    const lines: string[] = [];
    const options = { timeoutMs: 60_000, progressMs: 5, onProgress: (line: string) => lines.push(line) };
    const waiting = waitForMembers(here, [ps], options, () => undefined);
    here.events.emit({ type: 'trusted', member: here.now() });
    here.become('alive');
    await waiting;
    expect(lines).toEqual([]);
  });

  it('waits for the tasks that a function returns', async () => {
    const here = place();
    const missing = (members: readonly Member[]) =>
      members.filter(({ status }) => status !== 'left').map(({ task }) => task);
    const waiting = waitForMembers(here, missing, { timeoutMs: 60_000 }, () => undefined);
    here.become('left');
    here.events.emit({ type: 'left', member: here.now() });
    await waiting;
  });

  it('ends with its signal, and when its task is removed', async () => {
    const controller = new AbortController();
    const aborted = waitForMembers(
      place(),
      [ps],
      { timeoutMs: 60_000, signal: controller.signal },
      () => undefined,
    );
    controller.abort();
    await expect(aborted).rejects.toMatchObject({ code: 'SHOAL_ABORTED' });
    const here = place();
    const waiting = waitForMembers(here, [ps], { timeoutMs: 60_000 }, () => undefined);
    here.events.emit({ type: 'exit', reason: { kind: 'removed' } });
    await expect(waiting).rejects.toThrow(/no longer a member/);
  });
});
