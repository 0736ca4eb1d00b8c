/** The task's end of the rope: a task that a launcher started dies when the launcher is gone. */
import { LAUNCHER_VARIABLE } from './child.js';

/**
 * Call it before anything that takes time. Ends the process at once, without the cluster's farewells: all the
 * other tasks end in the same moment.
 */
export function dieWithLauncher(): void {
  if (process.env[LAUNCHER_VARIABLE] === undefined) return;
  // A process that the job starts is not a task of the launcher.
  delete process.env[LAUNCHER_VARIABLE];
  const end = () => process.kill(process.pid, 'SIGKILL');
  if (process.connected !== true) {
    end();
    return;
  }
  process.once('disconnect', end);
  // The rope alone keeps no task alive that is done.
  process.channel?.unref();
}
