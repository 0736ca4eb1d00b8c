/** The disk of another task through its agent, for a store that acts as that task. */
import { ShoalError } from '../../../base/errors/errors.js';
import type { BlobSource } from '../store.js';
import type { PeerBlobs } from './peers.js';
import type { OwnDisk } from './peers-store.js';

/** Staging publishes the blob immediately; discarding removes it. */
export function remoteDisk(blobs: PeerBlobs, place: string): OwnDisk {
  const here = <B extends object>(blob: B) => ({ ...blob, places: [place] });
  return {
    put: async (name, source, options) => ({
      ...here(await blobs.write(name, source, options)),
      shortfall: 0,
    }),
    stage: async (name, chunks, { size, signal, timeoutMs, crc32c, orderedBy } = {}) => {
      const source = onePass(chunks, `the connection to ${place} broke while sending blob ${name}`);
      const digest = await blobs.write(name, source, { size, signal, timeoutMs, crc32c, orderedBy });
      return { ...digest, isReadBack: false, commit: async () => true, discard: () => blobs.remove(name) };
    },
    read: (name, options) => blobs.read(name, options) as AsyncGenerator<Uint8Array>,
    stat: async (name, options) => {
      const blob = await blobs.stat(name, options);
      return blob && here(blob);
    },
    digest: (name, options) => blobs.digest(name, options),
    list: async function* (prefix) {
      for await (const blob of blobs.list(prefix)) yield here(blob);
    },
    remove: (name, options) => blobs.remove(name, options),
    // The task sweeps its own disk.
    sweep: async () => 0,
    close: async () => {},
  };
}

/** A source of chunks that can be read once: a retry needs another put. */
function onePass(chunks: AsyncIterable<Uint8Array>, why: string): BlobSource {
  let isTaken = false;
  return (offset) => {
    if (isTaken || offset !== 0) throw new ShoalError('SHOAL_UNREACHABLE', why);
    isTaken = true;
    return chunks;
  };
}
