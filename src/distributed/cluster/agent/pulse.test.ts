import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sleep } from '../../../base/async/deadline.js';
import { type Identity, sameIdentity } from '../membership/map.js';
import { membershipSettings } from '../membership/settings.js';
import { initCerts, issueCert } from '../spec/certs.js';
import { loadTls, type Security, tokenSecurity } from '../spec/security.js';
import { taskId } from '../spec/task-id.js';
import { hooks, testAgent } from '../testing/agents.js';
import { Pulse } from './pulse.js';

const from: Identity = { task: taskId('worker', 1), incarnation: 7, nonce: 'n' };
const settings = membershipSettings({ heartbeatMs: 100, deadAfterMs: 800 });
const ps = taskId('ps', 0);
const OBSERVED_MS = 1500;

let directory: string;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'shoal-pulse-'));
  await initCerts({ dir: directory });
  for (const bearer of [ps, from.task]) await issueCert({ dir: directory, bearer });
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const kinds: Readonly<Record<string, () => readonly [accepting: Security, calling: Security]>> = {
  'no credentials': () => [{ kind: 'none' }, { kind: 'none' }],
  'a token': () => {
    const security = tokenSecurity('a-token-for-tests-only');
    return [security, security];
  },
  certificates: () => [loadTls(directory, ps), loadTls(directory, from.task)],
};

describe('a pulse', { timeout: 120_000 }, () => {
  it.each(Object.keys(kinds))('reports a blocked main thread, and nothing else, with %s', async (kind) => {
    const [accepting, calling] = kinds[kind]!();
    const pulses: Identity[] = [];
    const agent = await testAgent({
      security: accepting,
      hooks: { ...hooks, pulse: (identity) => void pulses.push(identity) },
    });
    const pulse = new Pulse({ cluster: 'shoal', security: calling, settings });
    pulse.update(from, [{ task: ps, address: agent.address }]);
    // Without beats the main thread counts as blocked.
    while (pulses.length === 0) await sleep(10);
    const before = pulses.length;
    await sleep(OBSERVED_MS);
    const blocked = pulses.length - before;
    const beating = setInterval(() => pulse.beat(), 10);
    await sleep(OBSERVED_MS);
    clearInterval(beating);
    expect(blocked).toBeGreaterThan(0);
    // One may have been under way, and this process may have been suspended for a moment.
    expect((pulses.length - before - blocked) / blocked).toBeLessThan(0.5);
    expect(pulses.every((identity) => sameIdentity(identity, from))).toBe(true);
    await pulse.close();
    await agent.close();
  });
});
