import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { AgentClient } from '../agent/agent-client.js';
import { initCerts, issueCert } from '../spec/certs.js';
import { ClusterSpec } from '../spec/cluster-spec.js';
import { loadTls } from '../spec/security.js';
import { taskId } from '../spec/task-id.js';
import { type ClusterTask, joinCluster } from '../task/cluster-task.js';
import type { MapEntry } from './map.js';
import type { MembershipMessage, View } from './types.js';

const PATIENCE_MS = 60_000;
const HEARTBEAT_MS = 100;
const [chief, ps, worker] = [taskId('chief', 0), taskId('ps', 0), taskId('worker', 0)];

let dir: string;
let tasks: ClusterTask[];
let exits: string[];
let notices: string[];
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'shoal-claims-'));
  [tasks, exits, notices] = [[], [], []];
  await initCerts({ dir });
  for (const bearer of [chief, ps, worker]) await issueCert({ dir, bearer });
});
afterEach(async () => {
  await Promise.all(tasks.map((task) => task.leave({ timeoutMs: 200 })));
  rmSync(dir, { recursive: true });
});

async function joinAs(contact?: string) {
  const at = (port: number) => `127.0.0.1:${port}`;
  const spec = new ClusterSpec({ chief: [contact ?? at(1)], ps: [at(2)], worker: [at(3)] });
  const self = contact === undefined ? chief : ps;
  const task = await joinCluster({
    spec,
    self,
    security: loadTls(dir, self),
    listen: '127.0.0.1:0',
    settings: { heartbeatMs: HEARTBEAT_MS },
    onNotice: (line) => notices.push(line),
    onExit: (error) => exits.push(error.message),
  });
  tasks.push(task);
  return task;
}

/** A worker with a valid certificate that sends arbitrary messages. */
async function send(to: ClusterTask, views: readonly View[]): Promise<MembershipMessage> {
  const client = new AgentClient({
    address: to.agentAddress,
    task: to.task,
    security: loadTls(dir, worker),
  });
  const from: MapEntry = {
    task: worker,
    incarnation: 1,
    nonce: 'liar',
    first: 1,
    agentAddress: '127.0.0.1:3',
    serverAddress: null,
    host: 'h',
    pid: 1,
    left: false,
    beat: 1,
    step: null,
  };
  try {
    return await client.exchange('announce', { from, digest: '', lost: [], members: views });
  } finally {
    client.close();
  }
}

function viewOf(task: ClusterTask, change: Partial<View>): View {
  const { lastSeen: _, pendingEvent: __, ...view } = task.member(task.task)!;
  return { ...view, ...change };
}

const beats = (count: number) => new Promise((done) => setTimeout(done, count * HEARTBEAT_MS));

describe('with the certificate of a worker', { timeout: 2 * PATIENCE_MS }, () => {
  it('a task cannot redirect a ps to another chief, nor remove the chief', async () => {
    const lead = await joinAs();
    const server = await joinAs(lead.agentAddress);
    await server.waitFor([chief], { timeoutMs: PATIENCE_MS });
    const { incarnation, agentAddress } = lead.member(chief)!;
    await send(server, [viewOf(lead, { incarnation: incarnation + 1, agentAddress: '127.0.0.1:3' })]);
    await send(server, [viewOf(lead, { beat: 1_000_000, agentAddress: '127.0.0.1:3' })]);
    await send(server, [viewOf(lead, { left: true, status: 'left' })]);
    await expect.poll(() => notices.join(), { timeout: PATIENCE_MS }).toMatch(/claims that incarnation/);
    expect(server.member(chief)).toMatchObject({ incarnation, agentAddress, status: 'alive', left: false });
  });

  it('a task cannot make the chief exit, even with an address where a task with another certificate answers', async () => {
    const lead = await joinAs();
    const server = await joinAs(lead.agentAddress);
    await server.waitFor([chief], { timeoutMs: PATIENCE_MS });
    const { incarnation } = lead.identity;
    await send(lead, [
      viewOf(lead, { incarnation: incarnation + 1, nonce: 'x', agentAddress: server.agentAddress }),
    ]);
    await expect.poll(() => notices.join(), { timeout: PATIENCE_MS }).toMatch(/claims that incarnation/);
    await send(lead, [viewOf(lead, { left: true, status: 'left' })]);
    await send(lead, [viewOf(lead, { incarnation: Number.MAX_SAFE_INTEGER, status: 'dead' })]);
    await beats(5);
    expect(exits).toEqual([]);
    expect(lead.identity.incarnation).toBe(incarnation);
    expect(await lead.order(ps, 'none').catch((error: { code: string }) => error.code)).toBe(
      'SHOAL_NOT_FOUND',
    );
  });

  it('a task cannot make sessions reopen repeatedly by claims about earlier incarnations of a ps', async () => {
    const lead = await joinAs();
    const server = await joinAs(lead.agentAddress);
    await lead.waitFor([ps], { timeoutMs: PATIENCE_MS });
    const before = lead.epoch;
    const { first } = lead.member(ps)!;
    for (let i = 1; i <= 10; i++) await send(lead, [viewOf(server, { first: first - i })]);
    await beats(5);
    // A past incarnation cannot be probed, so one claim per minute is accepted.
    expect(lead.epoch - before).toBeLessThanOrEqual(1);
    expect(lead.member(ps)).toMatchObject({ status: 'alive' });
  });

  it('a real successor confirms the claim, and the older process exits', async () => {
    const lead = await joinAs();
    const server = await joinAs(lead.agentAddress);
    await server.waitFor([chief], { timeoutMs: PATIENCE_MS });
    const successor = await joinAs();
    // The successor reached no peer: its clock gave it the higher incarnation. A worker's claim announces it.
    // It is repeated, as real tasks do, because the check of a claim may time out.
    const claim = () => send(lead, [viewOf(successor, {})]).catch(() => {});
    await expect
      .poll(() => claim().then(() => exits.join()), { timeout: PATIENCE_MS, interval: 5 * HEARTBEAT_MS })
      .toMatch(/ replaced it/);
    expect(exits).toHaveLength(1);
  });
});
