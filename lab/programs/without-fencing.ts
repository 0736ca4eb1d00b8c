/**
 * Removes the fencing of processes that were replaced from a task, to show that the checks of a soak notice it: orders,
 * requests, streams and changes of blobs are accepted from any process of a task, none of them ends or waits because of
 * another one, and a process that continues after a fault point learns of its successor later. The alarm of a falling step
 * is removed as well: it may end the job before the checks see what the alarm saw.
 */

import { ShoalError } from '../../src/base/errors/errors.js';
import { AgentClient } from '../../src/distributed/cluster/agent/agent-client.js';
import { BlobGuard } from '../../src/distributed/cluster/agent/blobs/blob-access.js';
import { type Admission, Admissions } from '../../src/distributed/cluster/agent/calls/admissions.js';
import type { MembershipMessage } from '../../src/distributed/cluster/membership/types.js';
import type { TaskId } from '../../src/distributed/cluster/spec/task-id.js';
import { ClusterTask } from '../../src/distributed/cluster/task/cluster-task.js';
import { StepAlarm } from '../../src/training/train/recovery/steps/step-alarm.js';

/**
 * For so long a process that continues gets no message about its own task. Otherwise it is chance whether it ends
 * before it does what it was about to do.
 */
const UNAWARE_MS = 8000;

export function removeFencing(): void {
  Admissions.prototype.admit = admitAnything;
  Admissions.prototype.supersede = () => {};
  Admissions.prototype.endStreams = () => {};
  BlobGuard.prototype.check = async () => {};
  StepAlarm.prototype.read = (_counter, read) => read();
  const accept = () => undefined;
  ClusterTask.prototype.ownRefusal = accept;
  const isUnaware = watchStops();
  const { begin } = ClusterTask.prototype;
  ClusterTask.prototype.begin = function (agent, address) {
    const { exchange } = this.hooks;
    Object.assign(this.hooks, {
      judge: accept,
      judgeCaller: accept,
      judgeWriter: accept,
      exchange: (message: MembershipMessage, complete: boolean) =>
        exchange(isUnaware() ? withoutNewsOf(this.task, message) : message, complete),
    });
    return begin.call(this, agent, address);
  };
  const { exchange } = AgentClient.prototype;
  AgentClient.prototype.exchange = async function (kind, message, options) {
    const reply = await exchange.call(this, kind, message, options);
    return isUnaware() ? withoutNewsOf(message.from.task, reply) : reply;
  };
}

function admitAnything(): Admission {
  return {
    signal: new AbortController().signal,
    ready: undefined,
    hold: (work) => void work.catch(() => {}),
    release: () => {},
  };
}

/** Whether this process has continued a short time ago, after it had stopped at a fault point. */
function watchStops(): () => boolean {
  let until = 0;
  const kill = process.kill.bind(process);
  process.kill = (pid, signal) => {
    const isDone = kill(pid, signal);
    if (pid === process.pid && signal === 'SIGSTOP') until = performance.now() + UNAWARE_MS;
    return isDone;
  };
  return () => performance.now() < until;
}

function withoutNewsOf(task: TaskId, message: MembershipMessage): MembershipMessage {
  if (message.from.task === task) throw new ShoalError('SHOAL_UNREACHABLE', 'no news of this task');
  return { ...message, members: message.members.filter((member) => member.task !== task) };
}
