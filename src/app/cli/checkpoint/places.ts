/** The places that hold copies: running tasks, through their agents, or the directories of stopped tasks. */
import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { invalid, ShoalError } from '../../../base/errors/errors.js';
import { manifestsPrefix } from '../../../distributed/checkpoint/format/names.js';
import { AgentClient } from '../../../distributed/cluster/agent/agent-client.js';
import type { ClusterStatus } from '../../../distributed/cluster/agent/wire.js';
import { parseAddress } from '../../../distributed/cluster/spec/address.js';
import type { Security } from '../../../distributed/cluster/spec/security.js';
import { compareTasks } from '../../../distributed/cluster/spec/task-id.js';
import { placeOf, taskAt } from '../../../distributed/cluster/task/peers.js';
import { DirectoryStore } from '../../../distributed/store/disk/directory-store.js';
import { directoryBlobs } from '../../../distributed/store/peers/directory-blobs.js';
import type { PeerBlobs, PeerMember } from '../../../distributed/store/peers/peers.js';

export interface Place extends PeerMember {
  /** The machine's name or the directory, for messages. */
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

/** Each directory as a separate machine, as in the cluster that wrote it. */
export function directoryPlaces(directories: readonly string[]): Places {
  const byPlace = new Map<string, DirectoryStore>();
  for (const directory of directories) {
    const root = resolve(directory);
    if (!isDirectory(root))
      throw new ShoalError('SHOAL_NOT_FOUND', `there is no directory ${root}`, {
        hint: 'a task keeps its blobs in the subdirectory `blobs` of its own directory',
      });
    const place = placeName(root);
    if (byPlace.has(place)) throw invalid(`--dirs contains two directories of ${place}`);
    byPlace.set(place, new DirectoryStore(root));
  }
  const [nearest] = byPlace.keys();
  if (nearest === undefined) throw invalid('--dirs contains no directory');
  return {
    list: [...byPlace].map(([place, { root }]) => ({ place, host: root, alive: true, at: root })),
    nearest,
    blobs: (place) => {
      const store = byPlace.get(place);
      if (store) return directoryBlobs(store);
      throw new ShoalError('SHOAL_NOT_FOUND', `${place} is not one of the directories in --dirs`);
    },
    close: () => {},
  };
}

/** The blob directories of a local cluster's tasks. */
export function blobDirectories(clusterDir: string): readonly string[] {
  if (!isDirectory(clusterDir)) return [];
  return readdirSync(clusterDir)
    .map((name) => join(clusterDir, name, 'blobs'))
    .filter(isDirectory)
    .sort();
}

/** Whether a blob directory has checkpoints of any job. */
export function hasManifests(blobs: string): boolean {
  const isUsed = (namespace: string) => {
    const folder = join(blobs, manifestsPrefix(namespace));
    return isDirectory(folder) && readdirSync(folder).length > 0;
  };
  return ['', ...readdirSync(blobs)].some(isUsed);
}

/** `ps/0` for `…/ps-0/blobs`, the place of the task that wrote it; otherwise the directory's name. */
function placeName(root: string): string {
  const owner = basename(root) === 'blobs' ? basename(dirname(root)) : basename(root);
  return owner.replace(/^([a-z]+)-(\d+)$/, '$1/$2');
}

export function isDirectory(path: string): boolean {
  return existsSync(path) && statSync(path).isDirectory();
}
