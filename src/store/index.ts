/** Stores of blobs: a directory, the disks of all tasks, memory. */
export { DirectoryStore, type StagedBlob } from './directory-store.js';
export { MemoryStore } from './memory-store.js';
export { OutsideStore, type OutsideStoreOptions } from './outside-store.js';
export type { PeerBlobs, PeerMember, Peers } from './peers.js';
export { PeersStore, type PeersStoreOptions } from './peers-store.js';
export * from './store.js';
