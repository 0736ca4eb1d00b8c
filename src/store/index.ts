/** Stores of blobs: a directory, the disks of all tasks, memory. */
export { DirectoryStore, type StagedBlob } from './disk/directory-store.js';
export { MemoryStore } from './memory-store.js';
export { OutsideStore, type OutsideStoreOptions } from './peers/outside-store.js';
export type { PeerBlobs, PeerMember, Peers } from './peers/peers.js';
export { PeersStore, type PeersStoreOptions } from './peers/peers-store.js';
export * from './store.js';
