import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DirectoryStore } from '../../../store/disk/directory-store.js';
import { PeersStore } from '../../../store/peers/peers-store.js';
import type { Identity } from '../../membership/map.js';
import { ClusterSpec } from '../../spec/cluster-spec.js';
import { type TaskId, taskId } from '../../spec/task-id.js';
import { type ClusterTask, joinCluster } from '../../task/cluster-task.js';
import { peersOf } from '../../task/peers.js';
import { AgentClient } from '../agent-client.js';

const CHIEF = taskId('chief', 0);
const [PS0, PS1] = [taskId('ps', 0), taskId('ps', 1)];
const refused = { code: 'SHOAL_FORBIDDEN', message: expect.stringContaining('has been replaced') };

let folder: string;
let chief: ClusterTask;
let ps: ClusterTask;
const clients: AgentClient[] = [];

const rootOf = (task: TaskId) => join(folder, task.replace(/\W+/g, '-'));

async function start(self: TaskId, chiefAddress = '127.0.0.1:1'): Promise<ClusterTask> {
  return joinCluster({
    spec: new ClusterSpec({ chief: [chiefAddress], ps: ['127.0.0.1:2', '127.0.0.1:3'] }),
    self,
    security: { kind: 'none' },
    listen: '127.0.0.1:0',
    blobRoot: rootOf(self),
    settings: { heartbeatMs: 100, deadAfterMs: 20_000 },
    onExit: () => {},
  });
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-fencing-'));
  chief = await start(CHIEF);
  ps = await start(PS0, chief.agentAddress);
  await ps.waitFor([CHIEF], { timeoutMs: 60_000 });
  await chief.waitFor([PS0], { timeoutMs: 60_000 });
});
afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await Promise.all([chief, ps].map((task) => task.leave({ timeoutMs: 200 })));
  rmSync(folder, { recursive: true, force: true });
});

/** A client of the ps's agent with the given identity. */
function as(identity: Identity): AgentClient {
  const client = new AgentClient({
    address: ps.agentAddress,
    task: PS0,
    security: { kind: 'none' },
    identity: () => identity,
  });
  clients.push(client);
  return client;
}

/** A process of the same task that was started before or after. */
const later = (by: number): Identity => ({
  ...chief.identity,
  incarnation: chief.identity.incarnation + by,
  ...(by !== 0 && { nonce: `process ${by}` }),
});
const bytes = Buffer.from('x');
const isThere = (name: string) => existsSync(join(rootOf(PS0), name));

describe('blobs of a chief that was replaced', () => {
  it('can be neither written nor removed', async () => {
    await as(later(0)).blobs.write('a', bytes);
    await expect(as(later(-1)).blobs.write('b', bytes)).rejects.toMatchObject(refused);
    await expect(as(later(-1)).blobs.remove('a')).rejects.toMatchObject(refused);
    expect([isThere('a'), isThere('b')]).toEqual([true, false]);
  });

  it('are not accepted from a task that executes its order, even after the write began', async () => {
    const caller = as({ task: PS1, incarnation: 7, nonce: 'n' });
    await caller.blobs.write('current', bytes, { orderedBy: later(0) });
    await expect(caller.blobs.write('late', bytes, { orderedBy: later(-1) })).rejects.toMatchObject(refused);
    const slow = async function* () {
      yield bytes;
      // A write by the successor itself fences like its order.
      await as(later(1)).blobs.write('successor', bytes);
      yield bytes;
    };
    const begun = caller.blobs.write('begun', slow, { orderedBy: later(0) });
    await expect(begun).rejects.toMatchObject(refused);
    expect([isThere('late'), isThere('begun')]).toEqual([false, false]);
  });

  it('are not written to the own disk of a task that executes its order', async () => {
    const directory = new DirectoryStore(rootOf(PS0));
    const store = new PeersStore({ peers: peersOf(ps), directory, replicas: 0 });
    await expect(store.put('own', bytes, { orderedBy: later(-1) })).rejects.toMatchObject(refused);
    expect(isThere('own')).toBe(false);
  });

  it('stay on its own disk when another task refuses to remove them', async () => {
    const directory = new DirectoryStore(rootOf(CHIEF));
    const store = new PeersStore({ peers: peersOf(chief), directory });
    await store.put('kept', bytes);
    await as(later(1))
      .order('none', later(1), null)
      .catch(() => {});
    await expect(store.remove('kept')).rejects.toMatchObject(refused);
    await expect(store.put('late', bytes)).rejects.toMatchObject(refused);
    expect(await directory.stat('kept')).toBeDefined();
    expect(await directory.stat('late')).toBeUndefined();
  });
});

it('a claim of another task to act for a higher chief does not fence the current one', async () => {
  const caller = as({ task: PS1, incarnation: 7, nonce: 'n' });
  await caller.blobs.write('ahead', bytes, { orderedBy: later(1000) });
  await as(later(0)).blobs.write('present', bytes);
  expect([isThere('ahead'), isThere('present')]).toEqual([true, true]);
});

it('refuses a task that was replaced, and one of another cluster', async () => {
  const replaced = { ...ps.identity, incarnation: ps.identity.incarnation - 1, nonce: 'before' };
  await expect(as(replaced).blobs.write('x', bytes)).rejects.toMatchObject(refused);
  const stranger = new AgentClient({
    address: ps.agentAddress,
    security: { kind: 'none' },
    cluster: 'another',
    identity: () => chief.identity,
  });
  clients.push(stranger);
  await expect(stranger.blobs.remove('x')).rejects.toMatchObject({ code: 'SHOAL_FORBIDDEN' });
});
