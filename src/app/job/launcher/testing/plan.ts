/** What a fake task does after it has printed that it is up. */
export interface Plan {
  /** Exits after this time; default: runs until it is stopped. */
  readonly exitAfterMs?: number;
  /** Waits until this many tasks in total are up. */
  readonly company?: number;
  readonly exitCode?: number;
  readonly say?: readonly string[];
  readonly complain?: readonly string[];
  /** Ignores SIGINT. */
  readonly stubborn?: boolean;
  /** Starts a child process and leaves it behind. */
  readonly offspring?: boolean;
  /** Writes this many bytes without a newline. */
  readonly flood?: number;
  /** What to do instead after a restart in the same directory. */
  readonly again?: Plan;
}
