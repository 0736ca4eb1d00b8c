/** Logs that a task is lost or back. */
import type { Log } from '../../../base/text/log.js';

import { taskLabel } from '../spec/task-id.js';
import type { TaskEvent } from './task-events.js';

/** `isQuiet`: only as data, because other lines say so. Default: false. */
export function logLoss(event: TaskEvent, log: Log, isQuiet = false): void {
  if (event.type !== 'lost' && event.type !== 'back') return;
  const { task } = event.member;
  const member = taskLabel(task);
  if (event.type === 'lost') {
    const why = event.why === 'blocked' ? 'its main thread stays blocked' : event.why;
    log(`${task} is lost (${why})`, isQuiet ? 'debug' : 'warn', { event: 'taskLost', member, why });
    return;
  }
  const { replaced } = event;
  const how = replaced ? ' as a new process' : '';
  log(`${task} is back${how}`, isQuiet ? 'debug' : 'info', {
    event: 'taskReturned',
    member,
    isNewProcess: replaced,
  });
}
