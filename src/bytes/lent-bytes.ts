/** A temporary view of memory that another object owns; valid until `giveBack`. */
export interface LentBytes {
  readonly bytes: Uint8Array;
  readonly giveBack: () => void;
}
