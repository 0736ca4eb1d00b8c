/** A local directory with the interface of a task's blobs. */

import type { DirectoryStore } from '../disk/directory-store.js';
import type { PeerBlobs } from './peers.js';

export function directoryBlobs(
  directory: Pick<DirectoryStore, 'put' | 'read' | 'stat' | 'digest' | 'list' | 'remove'>,
): PeerBlobs {
  return {
    write: (name, source, { crc32c: _, ...options } = {}) => directory.put(name, source, options),
    read: (name, { attempts: _, ...options } = {}) => directory.read(name, options),
    stat: (name) => directory.stat(name),
    digest: (name, options) => directory.digest(name, options),
    list: (prefix) => directory.list(prefix),
    remove: (name) => directory.remove(name),
  };
}
