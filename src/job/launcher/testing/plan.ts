/** What a stand-in does, after it has said that it is up. */
export interface Plan {
  /** Exits after so many ms; stays until told to stop without it. */
  readonly exitAfterMs?: number;
  /** Stays until so many tasks are up in all. */
  readonly company?: number;
  readonly exitCode?: number;
  readonly say?: readonly string[];
  readonly complain?: readonly string[];
  /** Takes no notice of SIGTERM. */
  readonly stubborn?: boolean;
  /** Starts a process of its own and leaves it behind. */
  readonly offspring?: boolean;
  /** Writes this many bytes without a line end. */
  readonly flood?: number;
  /** What to do instead in a directory that an earlier life has been in. */
  readonly again?: Plan;
}
