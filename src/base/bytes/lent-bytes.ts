/** A temporary view of memory that another object owns; valid until `giveBack`. */
export interface LentBytes {
  readonly bytes: Uint8Array;
  readonly giveBack: () => void;
}

/** Memory that another object owns, held until `letGo`; parts of it can be lent meanwhile. */
export interface HeldBytes {
  /** Must stay reachable until `letGo`: its collection would free the memory. */
  readonly owner: object;
  /** Where the bytes are, if they are in native memory. */
  readonly address?: bigint;
  readonly lend: (start: number, end: number) => LentBytes;
  readonly letGo: () => void;
}
