/** The tasks of a cluster as the peers of a store. */
import type { Peers } from '../../store/peers/peers.js';
import type { Identity } from '../membership/map.js';
import { parseAddress } from '../spec/address.js';
import { parseTaskId, type TaskId, taskId } from '../spec/task-id.js';
import type { ClusterTask } from './cluster-task.js';

/** The name of a task as a place: `ps/0`. */
export function placeOf(task: TaskId): string {
  const { job, index } = parseTaskId(task);
  return `${job}/${index}`;
}

export function taskAt(place: string): TaskId {
  const [job = '', index = ''] = place.split('/');
  return taskId(job, /^\d+$/.test(index) ? Number(index) : Number.NaN);
}

/**
 * Machines are told apart by name and by address: containers and hosts of a lab may share a name, and tasks
 * behind one name may have several addresses, which at worst keeps a replica nearer than it could be.
 */
export function peersOf(task: ClusterTask): Peers {
  return {
    self: placeOf(task.task),
    members: () =>
      task
        .members()
        .filter(({ status }) => status !== 'left')
        .map((member) => ({
          place: placeOf(member.task),
          host: `${member.host}/${parseAddress(member.agentAddress).host}`,
          alive: member.status === 'alive',
          turn: turnOf(member.task, task.chief),
        })),
    blobs: (place) => task.client(taskAt(place)).blobs,
    refusal: (orderedBy) => task.ownRefusal(orderedBy as Identity | undefined),
  };
}

/**
 * Workers hold replicas before the chief, which has enough to do, and both before a ps: those hold shards of their own,
 * and a job that is started again with fewer of them must find every shard. An evaluator may be missing next time: it
 * holds some only where nobody else does.
 */
function turnOf(task: TaskId, chief: TaskId | undefined): number {
  const { job } = parseTaskId(task);
  if (job === 'evaluator') return 3;
  if (job === 'ps') return 2;
  return task === chief ? 1 : 0;
}
