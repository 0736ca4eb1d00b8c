import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { AgentClient } from '../../../distributed/cluster/agent/agent-client.js';
import { ClusterSpec } from '../../../distributed/cluster/spec/cluster-spec.js';
import { type TaskId, taskId } from '../../../distributed/cluster/spec/task-id.js';
import { placeOf } from '../../../distributed/cluster/task/peers.js';
import { RESERVED } from '../../../distributed/store/blob-names.js';
import { Server } from './server.js';

const CHIEF = taskId('chief', 0);
const WORKER = taskId('worker', 0);

let folder = '';
let chief: Server;
let worker: Server;

async function start(self: TaskId, chiefAddress: string): Promise<Server> {
  const blobRoot = join(folder, placeOf(self).replace('/', '-'));
  const server = await Server.open({
    spec: new ClusterSpec({ chief: [chiefAddress], worker: ['127.0.0.1:2'] }),
    self,
    security: { kind: 'none' },
    listen: '127.0.0.1:0',
    settings: { heartbeatMs: 100, deadAfterMs: 20_000 },
    blobRoot,
    onExit: () => {},
  });
  return server;
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-service-'));
  const partials = join(folder, 'chief-0', RESERVED);
  mkdirSync(partials, { recursive: true });
  for (const name of ['old.part', 'young.part']) writeFileSync(join(partials, name), 'half');
  const before = performance.timeOrigin / 1000 - 1;
  utimesSync(join(partials, 'old.part'), before, before);
  chief = await start(CHIEF, '127.0.0.1:1');
  worker = await start(WORKER, chief.task.agentAddress);
  await chief.task.waitFor([WORKER], { timeoutMs: 60_000 });
});
afterAll(async () => {
  for (const server of [worker, chief]) {
    await server.checkpoints.close();
    await server.task.leave({ timeoutMs: 500 });
  }
  rmSync(folder, { recursive: true, force: true });
});

const gate = () => worker.checkpoints.pauses.gate;
const pause = (token: string) => chief.task.order(WORKER, 'train-pause', { leaseMs: 60_000, token });
const resume = (token: string) => chief.task.order(WORKER, 'train-resume', { token });

it('removes unfinished files of an earlier process of the task, and none of this one', async () => {
  const partials = join(folder, 'chief-0', RESERVED);
  expect(existsSync(partials)).toBe(true);
  await vi.waitFor(() => expect(readdirSync(partials)).toEqual(['young.part']), { timeout: 30_000 });
});

describe('the pause of a worker', () => {
  beforeEach(() => gate().resume());
  const { signal } = new AbortController();

  it('pauses and resumes both the chief and other workers; an export does not end a pause that holds', async () => {
    const { control: pauseControl } = chief.checkpoints.pauses;
    expect(pauseControl.workers()).toEqual([CHIEF, WORKER]);
    const isPaused = () => [chief.checkpoints.pauses.gate.paused, gate().paused];
    const pauseAll = async (token: string, holds: boolean) => {
      for (const name of pauseControl.workers())
        await pauseControl.pause(name, { token, holds, leaseMs: 60_000, signal });
    };
    const resumeAll = async (token: string) => {
      for (const name of pauseControl.workers()) await pauseControl.resume(name, token);
    };
    await pauseAll('a save', false);
    expect(isPaused()).toEqual([true, true]);
    await resumeAll('a save');
    expect(isPaused()).toEqual([false, false]);

    await pauseAll('until a ps has left', true);
    await pauseAll('an export', false);
    await resumeAll('an export');
    expect(isPaused()).toEqual([true, true]);
    await resumeAll('until a ps has left');
    expect(isPaused()).toEqual([false, false]);
  });

  it('is not ended by a late resume of an earlier one', async () => {
    await pause('first');
    await resume('first');
    await pause('second');
    await resume('first');
    expect(gate().paused).toBe(true);
    await resume('second');
    expect(gate().paused).toBe(false);
  });

  it('does not begin when its resume arrived first', async () => {
    await resume('early');
    await expect(pause('early')).rejects.toMatchObject({ code: 'SHOAL_ABORTED' });
    expect(gate().paused).toBe(false);
  });

  it('waits for the running step', async () => {
    await gate().enter();
    let isPaused = false;
    const paused = pause('waiting').then(() => {
      isPaused = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(isPaused).toBe(false);
    gate().leave();
    await paused;
    await resume('waiting');
  });

  it('ends when the lease expires', async () => {
    await chief.task.order(WORKER, 'train-pause', { leaseMs: 100, token: 'short' });
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect(gate().paused).toBe(false);
  });
});

describe('the chief', () => {
  it('no longer pauses a worker once its successor is known', async () => {
    await pause('of the predecessor');
    const successor = await start(CHIEF, chief.task.agentAddress);
    await vi.waitFor(() => expect(gate().paused).toBe(false), { timeout: 30_000 });
    await successor.task.waitFor([WORKER], { timeoutMs: 30_000 });
    await successor.task.order(WORKER, 'train-pause', { leaseMs: 60_000, token: 'of the successor' });
    expect(gate().paused).toBe(true);
    [chief] = [successor, await chief.checkpoints.close()];
  });

  // Must be the last test: afterwards this chief counts as replaced.
  it('is confirmed by the others until one of them knows of a successor', async () => {
    const { confirmChief } = chief.checkpoints;
    await confirmChief();
    const { identity } = chief.task;
    const successor = { ...identity, incarnation: identity.incarnation + 1, nonce: 'successor' };
    const client = new AgentClient({ address: worker.task.agentAddress, security: { kind: 'none' } });
    await client.order('checkpoint-confirm', successor, null);
    client.close();
    await expect(confirmChief()).rejects.toMatchObject({ code: 'SHOAL_FORBIDDEN' });
  });
});
