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
 * A host is identified by name and address: containers may share a name. A host with several addresses counts as
 * several, which at worst keeps a replica on the same machine.
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
          turn: turnOf(member.task, { chief: task.chief, isListed: task.isListed(member.task) }),
        })),
    blobs: (place) => task.client(taskAt(place)).blobs,
    refusal: (orderedBy) => task.ownRefusal(orderedBy as Identity | undefined),
  };
}

/**
 * Replicas go to workers first, then to the chief, which has more work, then to ps: these hold their own shards, and a
 * job that restarts with fewer ps must find every shard. Evaluators and elastic workers come last, since the next run
 * may have none.
 */
function turnOf(task: TaskId, { chief, isListed }: { chief: TaskId | undefined; isListed: boolean }): number {
  const { job } = parseTaskId(task);
  if (job === 'evaluator' || !isListed) return 3;
  if (job === 'ps') return 2;
  return task === chief ? 1 : 0;
}
