/** The tasks of a cluster as places that hold copies: those that run, through their agents, and directories. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { AgentClient } from '../../cluster/agent/agent-client.js';
import type { ClusterStatus } from '../../cluster/agent/wire.js';
import { parseAddress } from '../../cluster/spec/address.js';
import type { Security } from '../../cluster/spec/security.js';
import { compareTasks } from '../../cluster/spec/task-id.js';
import { placeOf, taskAt } from '../../cluster/task/peers.js';
import { invalid, ShoalError } from '../../errors/errors.js';
import { DirectoryStore } from '../../store/disk/directory-store.js';
import { directoryBlobs } from '../../store/peers/directory-blobs.js';
import type { PeerBlobs, PeerMember } from '../../store/peers/peers.js';

export interface Place extends PeerMember {
  /** Where it is, for people: the name of a machine, or a directory. */
  readonly at: string;
}

export interface Places {
  readonly list: readonly Place[];
  readonly nearest: string;
  blobs(place: string): PeerBlobs;
  close(): void;
}

export function agentPlaces(status: ClusterStatus, security: Security): Places {
  const members = [...status.members]
    .filter((member) => member.status !== 'left')
    .sort((a, b) => compareTasks(a.task, b.task));
  const clients = new Map(
    members.map(({ task, agentAddress }) => [
      placeOf(task),
      new AgentClient({ address: agentAddress, task, security, cluster: status.cluster }),
    ]),
  );
  return {
    list: members.map(({ task, host, agentAddress, status: health }) => ({
      place: placeOf(task),
      host: `${host}/${parseAddress(agentAddress).host}`,
      alive: health === 'alive',
      at: host,
    })),
    nearest: placeOf(status.self.task),
    blobs: (place) => {
      const client = clients.get(place);
      if (client) return client.blobs;
      throw new ShoalError('SHOAL_NOT_FOUND', `the cluster has no task ${taskAt(place)}`);
    },
    close: () => {
      for (const client of clients.values()) client.close();
    },
  };
}

/** Each directory as if it were a machine of its own, which it was while its task ran there. */
export function directoryPlaces(directories: readonly string[]): Places {
  const byPlace = new Map<string, DirectoryStore>();
  for (const directory of directories) {
    const root = resolve(directory);
    if (!isDirectory(root))
      throw new ShoalError('SHOAL_NOT_FOUND', `there is no directory ${root}`, {
        hint: 'blobs of a task lie in the directory `blobs` of its own directory',
      });
    const place = placeName(root);
    if (byPlace.has(place)) throw invalid(`two directories are those of ${place}`);
    byPlace.set(place, new DirectoryStore(root));
  }
  const [nearest] = byPlace.keys();
  if (nearest === undefined) throw invalid('no directory was named');
  return {
    list: [...byPlace].map(([place, { root }]) => ({ place, host: root, alive: true, at: root })),
    nearest,
    blobs: (place) => {
      const store = byPlace.get(place);
      if (store) return directoryBlobs(store);
      throw new ShoalError('SHOAL_NOT_FOUND', `${place} is none of the directories`);
    },
    close: () => {},
  };
}

/** The blob directories that the tasks of a local cluster have left. */
export function blobDirectories(clusterDir: string): readonly string[] {
  if (!isDirectory(clusterDir)) return [];
  return readdirSync(clusterDir)
    .map((name) => join(clusterDir, name, 'blobs'))
    .filter(isDirectory)
    .sort();
}

/** `ps/0` for `…/ps-0/blobs`, as the task was called while it ran; else the directory's own name. */
function placeName(root: string): string {
  const owner = basename(root) === 'blobs' ? basename(dirname(root)) : basename(root);
  return owner.replace(/^([a-z]+)-(\d+)$/, '$1/$2');
}

export function isDirectory(path: string): boolean {
  return existsSync(path) && statSync(path).isDirectory();
}
