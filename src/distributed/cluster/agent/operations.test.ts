/** What operators ask an agent for: with which credentials, and what they get. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { ShoalError } from '../../../base/errors/errors.js';
import { initCerts, issueCert } from '../spec/certs.js';
import { loadTls, type Security, tokenSecurity } from '../spec/security.js';
import { taskId } from '../spec/task-id.js';
import { type TestAgent, testAgent } from '../testing/agents.js';

let agent: TestAgent | undefined;
let folder: string | undefined;

afterEach(async () => {
  await agent?.close();
  agent = undefined;
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  folder = undefined;
});

async function serve(security: Security): Promise<TestAgent> {
  agent = await testAgent({ security });
  agent.agent.onOperation('double', (payload) => 2 * (payload as number));
  agent.agent.onOperation('fail', () => {
    throw new ShoalError('SHOAL_UNSUPPORTED', 'not here', { hint: 'Elsewhere.' });
  });
  return agent;
}

test('an operation is answered, and its error has code and hint', async () => {
  const { client, agent } = await serve(tokenSecurity('a-token-of-16-characters'));
  expect(await client().operate('double', 21)).toBe(42);
  await expect(client().operate('fail', null)).rejects.toMatchObject({
    code: 'SHOAL_UNSUPPORTED',
    hint: 'Elsewhere.',
  });
  await expect(client().operate('other', null)).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
  agent.onOperation('gone', () => 1)();
  await expect(client().operate('gone', null)).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
});

test('with a token it is refused without the token', async () => {
  const { client } = await serve(tokenSecurity('a-token-of-16-characters'));
  const wrong = client(tokenSecurity('another-token-of-16'));
  await expect(wrong.operate('double', 1)).rejects.toMatchObject({ code: 'SHOAL_FORBIDDEN' });
  await expect(client({ kind: 'none' }).operate('double', 1)).rejects.toMatchObject({
    code: 'SHOAL_FORBIDDEN',
  });
});

test('with certificates it needs that of the operator', async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-operations-'));
  await initCerts({ dir: folder });
  for (const bearer of ['/job:ps/task:0', 'operator']) await issueCert({ dir: folder, bearer });
  const own = loadTls(folder, taskId('ps', 0));
  const { client } = await serve(own);
  expect(await client(loadTls(folder, 'operator')).operate('double', 21)).toBe(42);
  await expect(client(own).operate('double', 21)).rejects.toMatchObject({
    code: 'SHOAL_FORBIDDEN',
    message: expect.stringContaining('operation double needs the certificate of an operator'),
  });
});
