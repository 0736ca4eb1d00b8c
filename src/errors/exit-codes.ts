/** The exit codes of `shoal` and of its tasks. */
export const EXIT = {
  done: 0,
  error: 1,
  usage: 2,
  /** A restart of the task may succeed: its port was in use, native calls hang, or the cluster was lost. */
  retry: 75,
  /** A newer process replaced this task; do not restart it, or it would replace the newer one. */
  superseded: 76,
  interrupted: 130,
} as const;
