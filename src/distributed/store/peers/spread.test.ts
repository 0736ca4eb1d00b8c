import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { ShoalError } from '../../../base/errors/errors.js';
import type { PeerBlobs, Peers } from './peers.js';
import { spread } from './spread.js';

it('fails when the own disk refuses a blob that others have already stored', {
  timeout: 20_000,
}, async () => {
  let taken = 0;
  const blobs: Partial<PeerBlobs> = {
    write: async (_, source, { crc32c } = {}) => {
      for await (const chunk of (source as () => AsyncIterable<Uint8Array>)()) taken += chunk.byteLength;
      const sum = (await crc32c?.()) ?? 0;
      return { published: true, size: taken, crc32c: sum };
    },
  };
  const other = { place: 'ps/1', host: 'b', alive: true };
  const peers: Peers = { self: 'ps/0', members: () => [other], blobs: () => blobs as PeerBlobs };
  const directory = {
    stage: async () => {
      while (taken === 0) await delay(5);
      await delay(50);
      throw new ShoalError('SHOAL_NO_SPACE', 'no room');
    },
  };
  const put = spread(
    { peers, directory, chosen: [other], spare: [], wanted: 1 },
    'x',
    Buffer.from('bytes'),
    {},
  );
  await expect(put).rejects.toMatchObject({ code: 'SHOAL_NO_SPACE' });
  expect(taken).toBe(5);
});
