/** The exit codes of `shoal` and of its tasks. */
export const EXIT = {
  done: 0,
  error: 1,
  usage: 2,
  /** Starting the task again may succeed: its port was taken, native calls are stuck in it, or the cluster was lost. */
  retry: 75,
  /** A newer process has taken this task's place; starting it again would take the place back. */
  superseded: 76,
  interrupted: 130,
} as const;
