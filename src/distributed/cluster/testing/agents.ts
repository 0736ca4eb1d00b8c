/** Agents without a cluster, for tests of the agent itself. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Agent, startAgent } from '../agent/agent.js';
import { AgentClient } from '../agent/agent-client.js';
import type { AgentHooks, AgentOptions } from '../agent/agent-options.js';
import { formatAddress } from '../spec/address.js';
import type { Security } from '../spec/security.js';
import { taskId } from '../spec/task-id.js';

export const self = { task: taskId('ps', 0), incarnation: 5, nonce: 'n' };

const entry = {
  ...self,
  first: 5,
  agentAddress: '127.0.0.1:1',
  serverAddress: null,
  host: 'h',
  pid: 1,
  left: false,
  beat: 0,
  step: null,
};

export const message = { from: entry, digest: 'd', lost: [], members: [] };

export const hooks: AgentHooks = {
  health: () => ({ cluster: 'shoal', task: self.task, incarnation: 5, pid: 1, host: 'h', uptimeMs: 1 }),
  status: () => ({ cluster: 'shoal', epoch: 1, chief: null, self, members: [] }),
  exchange: () => message,
  judge: () => undefined,
  judgeCaller: () => undefined,
  judgeWriter: () => undefined,
  chief: () => undefined,
  metrics: () => '# TYPE up gauge\nup 1\n',
};

export interface TestAgent {
  readonly agent: Agent;
  readonly root: string;
  readonly address: string;
  readonly client: (security?: Security, extra?: object) => AgentClient;
  readonly close: () => Promise<void>;
}

export async function testAgent(options: Partial<AgentOptions> = {}): Promise<TestAgent> {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-agent-'));
  const root = options.blobRoot ?? join(folder, 'blobs');
  const security = options.security ?? { kind: 'none' };
  const agent = await startAgent({
    cluster: 'shoal',
    listen: { host: '127.0.0.1', port: 0 },
    hooks,
    ...options,
    security,
    blobRoot: root,
  }).catch((error: unknown) => {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  });
  const address = formatAddress(agent.address);
  const clients: AgentClient[] = [];
  const client = (own: Security = security, extra: object = {}) => {
    const made = new AgentClient({ address, security: own, ...extra });
    clients.push(made);
    return made;
  };
  const close = async () => {
    for (const made of clients) made.close();
    await agent.close({ graceMs: 200 });
    rmSync(folder, { recursive: true, force: true });
  };
  return { agent, root, address, client, close };
}
