/** Bytes in memory of somebody else's, until they are given back. */
export interface LentBytes {
  readonly bytes: Uint8Array;
  readonly giveBack: () => void;
}
