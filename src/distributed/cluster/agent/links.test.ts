import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { initialState } from '../membership/membership.js';
import { membershipSettings } from '../membership/settings.js';
import { taskId } from '../spec/task-id.js';
import { Links } from './links.js';

test('an announcement during another one waits for a call with the latest state', async () => {
  const sent: unknown[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => {
      sent.push((JSON.parse(body) as { message: { from: { step: number } } }).message.from.step);
      setTimeout(() => response.writeHead(503).end(), 50);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const task = taskId('worker', 0);
  const incarnation = { task, incarnation: 1, first: 1, nonce: 'n', host: 'h', pid: 1 };
  const settings = membershipSettings({ heartbeatMs: 200, deadAfterMs: 3000 });
  const self = { ...incarnation, agentAddress: 'a:1', serverAddress: null };
  let state = initialState({ self, chief: undefined, contacts: [], settings, now: 0 });
  const links = new Links({
    cluster: 'c',
    security: { kind: 'none' },
    timeoutMs: 5000,
    state: () => state,
    dispatch: () => {},
    now: () => 0,
    onRefusal: () => {},
    onMismatch: () => {},
  });
  try {
    const call = { type: 'announce', to: taskId('ps', 0), address } as const;
    const first = links.call(call);
    await expect.poll(() => sent.length).toBe(1);
    const own = state.members.get(task)!;
    state = { ...state, members: new Map([[task, { ...own, step: 7 }]]) };
    await links.call(call);
    expect(sent).toEqual([null, 7]);
    await first;
  } finally {
    links.close();
    server.close();
  }
});
