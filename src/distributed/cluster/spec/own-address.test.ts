import { networkInterfaces } from 'node:os';
import { expect, it } from 'vitest';
import { ClusterSpec } from './cluster-spec.js';
import { ownAddress } from './own-address.js';

it('is the loopback address where the others are on this machine', async () => {
  expect(await ownAddress(new ClusterSpec({ ps: ['127.0.0.1:2222'] }))).toBe('127.0.0.1:0');
});

it('skips hosts whose names cannot be resolved', async () => {
  const spec = new ClusterSpec({ ps: ['nowhere.invalid:2222', '127.0.0.1:2223'] });
  expect(await ownAddress(spec)).toBe('127.0.0.1:0');
});

it('is an address of this machine', async () => {
  const own = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
  for (const { address } of own.filter(({ family }) => family === 'IPv4')) {
    expect(await ownAddress(new ClusterSpec({ ps: [`${address}:2222`] }))).toBe(`${address}:0`);
  }
});

it('suggests --listen when there is no route', async () => {
  const spec = new ClusterSpec({ ps: ['nowhere.invalid:2222'] });
  await expect(ownAddress(spec)).rejects.toMatchObject({
    code: 'SHOAL_CONFIG',
    hint: expect.stringContaining('--listen'),
  });
});
