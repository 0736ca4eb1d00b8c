import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { encodeVersions, type Speaker, VERSIONS, VERSIONS_HEADER } from '../../../base/bytes/versions.js';
import { ShoalError } from '../../../base/errors/errors.js';
import { ClusterSpec } from '../spec/cluster-spec.js';
import { taskId } from '../spec/task-id.js';
import { joinCluster } from '../task/cluster-task.js';
import { self, type TestAgent, testAgent } from '../testing/agents.js';
import { AgentClient } from './agent-client.js';
import { encodeError } from './wire.js';

const WORKER = taskId('worker', 1);
const later: Speaker = {
  task: WORKER,
  release: '90.0.0',
  versions: { ...VERSIONS, agent: { oldest: 2, newest: 2 } },
};
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function agentWithNotices(): Promise<{ made: TestAgent; notices: string[] }> {
  const notices: string[] = [];
  const made = await testAgent({ task: self.task, onNotice: (line) => notices.push(line) });
  closing.push(made.close);
  return { made, notices };
}

/** The status and the body of a request with the given headers. */
function ask(address: string, path: string, headers: Record<string, string>, method = 'GET') {
  return new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
    request(`http://${address}${path}`, { headers, method }, async (answer) => {
      resolve({ status: answer.statusCode, body: Buffer.concat(await answer.toArray()).toString() });
    })
      .on('error', reject)
      .end();
  });
}

test('every request of a release without a common version is refused, before its body is read, and logged once', async () => {
  const { made, notices } = await agentWithNotices();
  const headers = { [VERSIONS_HEADER]: encodeVersions(later) };
  const calls = [
    ['/membership', 'GET'],
    ['/membership/announce', 'POST'],
    ['/orders/x', 'POST'],
    ['/blobs/x', 'DELETE'],
  ] as const;
  for (const [path, method] of calls) {
    const { status, body } = await ask(made.address, path, headers, method);
    expect(status).toBe(409);
    expect(JSON.parse(body).error.code).toBe('SHOAL_VERSION_MISMATCH');
  }
  const upgrade = { ...headers, connection: 'Upgrade', upgrade: 'shoal-stages' };
  expect((await ask(made.address, '/streams/stages', upgrade)).status).toBe(409);
  expect(notices).toHaveLength(1);
  expect(notices[0]).toMatch(
    /worker\/task:1 \(Shoal 90.0.0\) speaks version 2 of the agent protocol, .*ps\/task:0 .* version 1/,
  );
});

test('a program without the header, such as a monitoring system, is answered; an invalid header is an error', async () => {
  const { made } = await agentWithNotices();
  expect((await ask(made.address, '/metrics', {})).status).toBe(200);
  expect((await ask(made.address, '/metrics', { [VERSIONS_HEADER]: 'agent=x' })).status).toBe(400);
});

/** A task of a later release: it refuses every request, from `after` requests on. */
async function laterTask(after = 0) {
  let asked = 0;
  const server = createServer((incoming, answer) => {
    asked += 1;
    if (asked <= after) return void incoming.socket.destroy();
    const why = `${self.task} cannot work with ${String(incoming.headers[VERSIONS_HEADER])}`;
    const { status, body } = encodeError(new ShoalError('SHOAL_VERSION_MISMATCH', why));
    answer.writeHead(status, { 'content-type': 'application/json' }).end(body);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { address, asked: () => asked };
}

test('the refusal is not retried, and names the caller', async () => {
  const { address, asked } = await laterTask();
  const client = new AgentClient({ address, task: self.task, caller: WORKER, security: { kind: 'none' } });
  closing.push(() => client.close());
  const error = { code: 'SHOAL_VERSION_MISMATCH', message: expect.stringContaining(WORKER) };
  await expect(client.status()).rejects.toMatchObject(error);
  await expect(
    client.upgrade('stages', { ...self, task: WORKER }, { timeoutMs: 5000 }),
  ).rejects.toMatchObject(error);
  expect(asked()).toBe(2);
});

function join(peer: string, exits: ShoalError[] = [], others: readonly string[] = []) {
  return joinCluster({
    spec: new ClusterSpec({ ps: [peer, ...others], worker: ['127.0.0.1:1', '127.0.0.1:2'] }),
    self: WORKER,
    listen: '127.0.0.1:0',
    security: { kind: 'none' },
    settings: { heartbeatMs: 50, suspectAfterMs: 500, retryMs: 50 },
    onExit: (error) => exits.push(error),
  });
}

test('a task that is refused when it starts does not start', async () => {
  const { address } = await laterTask();
  await expect(join(address)).rejects.toMatchObject({ code: 'SHOAL_VERSION_MISMATCH' });
});

test('a task that is refused before any peer has recorded it ends', async () => {
  // The first request, which asks for earlier incarnations, fails.
  const { address } = await laterTask(1);
  const exits: ShoalError[] = [];
  const task = await join(address, exits);
  closing.push(() => task.leave());
  await expect
    .poll(() => exits.map(({ code }) => code), { timeout: 30_000 })
    .toEqual(['SHOAL_VERSION_MISMATCH']);
});

test('one process of another release, which an upgrade has left behind, keeps no task from starting', async () => {
  const { address, asked } = await laterTask();
  const exits: ShoalError[] = [];
  // The other tasks are starting.
  const task = await join(address, exits, ['127.0.0.1:3', '127.0.0.1:4']);
  closing.push(() => task.leave());
  await expect.poll(asked, { timeout: 30_000 }).toBeGreaterThan(3);
  expect(exits).toEqual([]);
});
