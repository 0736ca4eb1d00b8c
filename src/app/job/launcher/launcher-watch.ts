/** Ends a task when the launcher that started it dies. */
import { LAUNCHER_VARIABLE } from './child.js';

/**
 * Call it before anything that takes time. Kills the process without sending leave messages: all other tasks end at
 * the same time.
 */
export function dieWithLauncher(): void {
  if (process.env[LAUNCHER_VARIABLE] === undefined) return;
  // Not inherited: a process that the job starts is not a task of the launcher.
  delete process.env[LAUNCHER_VARIABLE];
  const end = () => process.kill(process.pid, 'SIGKILL');
  if (process.connected !== true) {
    end();
    return;
  }
  process.once('disconnect', end);
  // The channel must not keep a finished task alive.
  process.channel?.unref();
}
