import { chmodSync, chownSync, cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { described } from '../../../../test/described.js';
import { describeError } from '../../../base/errors/errors.js';
import type { AgentOptions } from '../agent/agent-options.js';
import { BodyBudget, TooManyBytesError } from '../agent/blobs/body-budget.js';
import { joinCluster } from '../task/cluster-task.js';
import { self, type TestAgent, testAgent } from '../testing/agents.js';
import { initCerts, issueCert } from './certs.js';
import { ClusterSpec } from './cluster-spec.js';
import { resolveConfig } from './config.js';
import { loadTls } from './security.js';
import { taskId } from './task-id.js';

const TOKEN = '0123456789abcdef';
const PATIENCE = { timeout: 30_000 };

let dir: string;
let agents: TestAgent[];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'shoal-secrets-'));
  agents = [];
});
afterEach(async () => {
  await Promise.all(agents.map((agent) => agent.close()));
  rmSync(dir, { recursive: true });
});

async function agentWith(options: Partial<AgentOptions>): Promise<TestAgent> {
  const made = await testAgent(options);
  agents.push(made);
  return made;
}

function file(name: string, text: string, mode: number): string {
  const path = join(dir, name);
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

async function issue(name: string): Promise<string> {
  const made = join(dir, name);
  await initCerts({ dir: made });
  await issueCert({ dir: made, bearer: 'task' });
  return made;
}

describe('a secret', () => {
  it('is not accepted as an argument, which every user of the machine can see', () => {
    for (const argv of [['--cluster_token', TOKEN], [`--cluster-token=${TOKEN}`]]) {
      let message = '';
      try {
        resolveConfig({ argv });
      } catch (error) {
        message = describeError(error);
      }
      expect(message).toMatch(/not accepted[\s\S]*SHOAL_CLUSTER_TOKEN[\s\S]*--cluster-token-file/);
      expect(message).not.toContain(TOKEN);
    }
  });

  it('in a token file that others can read is refused', () => {
    const open = file('open', TOKEN, 0o640);
    expect(() => resolveConfig({ argv: [`--cluster_token_file=${open}`] })).toThrow(
      described(`chmod 600 ${open}`),
    );
    const closed = file('closed', TOKEN, 0o600);
    expect(resolveConfig({ argv: [`--cluster_token_file=${closed}`] }).clusterToken.value).toBe(TOKEN);
  });

  it.runIf(process.getuid?.() === 0)('of another owner may be readable by a group, as in a container', () => {
    const mounted = file('mounted', TOKEN, 0o440);
    chownSync(mounted, 12_345, 0);
    expect(resolveConfig({ argv: [`--cluster_token_file=${mounted}`] }).clusterToken.value).toBe(TOKEN);
    chmodSync(mounted, 0o444);
    expect(() => resolveConfig({ argv: [`--cluster_token_file=${mounted}`] })).toThrow(
      'other users can access it',
    );
  });

  it('in a config file that others can read is refused', () => {
    const open = file('open.json', JSON.stringify({ cluster_token: TOKEN }), 0o604);
    expect(() => resolveConfig({ file: open })).toThrow(described(`chmod 600 ${open}`));
    const harmless = file('harmless.json', JSON.stringify({ cluster_name: 'c' }), 0o644);
    expect(resolveConfig({ file: harmless }).clusterName.value).toBe('c');
  });

  it('in a key file that others can read is refused', async () => {
    const certs = await issue('certs');
    expect(loadTls(certs, self.task).kind).toBe('tls');
    for (const name of ['task.key', 'ca.key']) chmodSync(join(certs, name), 0o644);
    expect(() => loadTls(certs, self.task)).toThrow(described(`chmod 600 ${join(certs, 'task.key')}`));
    await expect(issueCert({ dir: certs, bearer: 'ps' })).rejects.toThrow(described(/chmod 600 .*ca\.key/));
  });

  it('sent over plain HTTP beyond loopback causes one warning', async () => {
    const notices: string[] = [];
    const join = async (listen: string) => {
      notices.length = 0;
      const task = await joinCluster({
        spec: new ClusterSpec({ ps: ['127.0.0.1:1'], worker: ['127.0.0.1:2'] }),
        self: taskId('ps', 0),
        security: { kind: 'token', token: TOKEN },
        listen,
        onNotice: (line) => notices.push(line),
      });
      await task.leave();
      return notices.filter((line) => line.includes('plain HTTP'));
    };
    expect(await join('127.0.0.1:0')).toEqual([]);
    const warnings = await join('0.0.0.0:0');
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(/token travels over plain HTTP.*certificates/);
    expect(warnings[0]).not.toContain(TOKEN);
  });
});

describe('a certificate that is renewed on disk', () => {
  it('is used by the server and by its clients for new connections', async () => {
    const used = await issue('used');
    const renewed = await issue('renewed');
    const notices: string[] = [];
    const security = loadTls(used, self.task);
    const { client } = await agentWith({
      security,
      limits: { certificatePollMs: 50 },
      onNotice: (line) => notices.push(line),
    });
    const before = loadTls(used, self.task);
    const after = loadTls(renewed, self.task);
    const standing = client(security);
    expect((await standing.health()).task).toBe(self.task);
    await expect(client(after).health()).rejects.toMatchObject({ code: 'SHOAL_FORBIDDEN' });
    cpSync(renewed, used, { recursive: true });
    await expect.poll(() => notices.join(), PATIENCE).toMatch(/certificate has changed/);
    expect((await client(after).health()).task).toBe(self.task);
    expect((await client(security).health()).task).toBe(self.task);
    expect((await standing.health()).task).toBe(self.task);
    await expect(client(before).health()).rejects.toMatchObject({ code: 'SHOAL_FORBIDDEN' });
  });

  it('but invalid leaves the previous one in use, and is reported once', async () => {
    const certs = await issue('certs');
    const notices: string[] = [];
    const { client } = await agentWith({
      security: loadTls(certs, self.task),
      limits: { certificatePollMs: 20 },
      onNotice: (line) => notices.push(line),
    });
    const good = loadTls(certs, self.task);
    writeFileSync(join(certs, 'task.crt'), 'half a certif');
    await expect.poll(() => notices.length, PATIENCE).toBe(1);
    await new Promise((done) => setTimeout(done, 200));
    expect(notices).toEqual([expect.stringMatching(/is invalid, the previous one stays in use/)]);
    expect((await client(good).health()).task).toBe(self.task);
  });
});

describe('bodies in memory', () => {
  it('are counted per peer and in total, and released when they are read', () => {
    const budget = new BodyBudget(100, 60);
    budget.take('a', 60);
    expect(() => budget.take('a', 1)).toThrow(TooManyBytesError);
    budget.take('b', 40);
    expect(() => budget.take('c', 1)).toThrow(/all tasks together/);
    budget.give('a', 60);
    budget.take('c', 60);
    expect(() => budget.take('c', 1)).toThrow(TooManyBytesError);
  });

  it('of one peer are limited: further ones are refused for a while, and the client resends them', async () => {
    const limits = { maxPeerBufferedBytes: 10_000, bodyTimeoutMs: 20_000 };
    const { agent, address, client } = await agentWith({ limits });
    agent.onOrder('echo', (payload) => payload);
    const [host, port] = address.split(':');
    const slow = request({
      host,
      port,
      method: 'POST',
      path: '/orders/echo',
      headers: { 'content-length': 9000 },
    });
    slow.on('error', () => {});
    slow.write('{');
    const status = () =>
      new Promise((done, fail) => {
        const body = JSON.stringify({ cluster: 'shoal', from: self, payload: 'x'.repeat(2000) });
        const headers = { 'content-length': Buffer.byteLength(body) };
        const call = request({ host, port, method: 'POST', path: '/orders/echo', headers }, (answer) => {
          answer.resume();
          done([answer.statusCode, answer.headers['retry-after']]);
        });
        call.once('error', fail);
        call.end(body);
      });
    await expect.poll(status, PATIENCE).toEqual([429, '1']);
    const patient = client().order('echo', self, 'y'.repeat(2000), { timeoutMs: 15_000 });
    await expect(client().order('echo', self, 'z'.repeat(2000), { timeoutMs: 300 })).rejects.toThrow(
      /try again later/,
    );
    slow.destroy();
    expect(await patient).toBe('y'.repeat(2000));
  });
});
