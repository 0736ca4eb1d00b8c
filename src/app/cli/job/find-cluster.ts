/** Finds the cluster that a command refers to: by address, by configuration, or by the directory it runs in. */
import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { ShoalError } from '../../../base/errors/errors.js';
import { formatAddress, parseAddress } from '../../../distributed/cluster/spec/address.js';
import { type ClusterConfig, resolveConfig } from '../../../distributed/cluster/spec/config.js';
import { type Security, securityOf, tokenSecurity } from '../../../distributed/cluster/spec/security.js';
import { taskId } from '../../../distributed/cluster/spec/task-id.js';
import { type ClusterFile, readClusterFile } from '../../job/launcher/cluster-file.js';
import { taskArguments } from '../task-flags.js';

export interface FindOptions {
  readonly agent?: string;
  readonly dir?: string;
  readonly certs?: string;
  readonly clusterTokenFile?: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
}

export interface FoundCluster {
  readonly addresses: readonly string[];
  readonly security: Security;
}

export function findCluster(options: FindOptions): FoundCluster {
  const { agent, dir, certs, clusterTokenFile, env, cwd } = options;
  const argv = taskArguments({
    certs,
    clusterTokenFile,
  });
  const config = resolveConfig({ argv, env });
  const security = securityOf(config, taskId('operator', 0));
  const running = () => (dir === undefined ? runningIn(join(cwd, '.shoal')) : runningAt(resolve(cwd, dir)));
  if (agent !== undefined) {
    const addresses = agent.split(',').map((text) => formatAddress(parseAddress(text.trim(), '--agent')));
    if (security.kind !== 'none') return { addresses, security };
    // The token of a cluster on this machine is in its cluster.json.
    const own = running().find(({ agents }) => addresses.some((address) => agents.includes(address)));
    return { addresses, security: own === undefined ? security : tokenSecurity(own.token) };
  }
  if (dir === undefined && config.mode === 'cluster') return { addresses: bestFirst(config), security };
  const [only, ...more] = running();
  if (only === undefined) {
    throw new ShoalError('SHOAL_NOT_FOUND', `no cluster runs in ${dir ?? join(cwd, '.shoal')}`, {
      hint: 'pass the agent address of one of its tasks: shoal status --agent host:port',
    });
  }
  if (more.length > 0) {
    const names = [only, ...more].map(({ job }) => `--dir .shoal/${job}`);
    throw new ShoalError('SHOAL_CONFIG', `several clusters run in ${join(cwd, '.shoal')}`, {
      hint: `choose one with ${names.join(' or ')}`,
    });
  }
  return { addresses: only.agents, security: tokenSecurity(only.token) };
}

/** The chief first, then the ps: they know the steps of all tasks. */
function bestFirst({ spec }: ClusterConfig): readonly string[] {
  const rank = ({ id, job }: { id: string; job: string }) => (id === spec.chief ? 0 : job === 'ps' ? 1 : 2);
  return [...spec.tasks].sort((a, b) => rank(a) - rank(b)).map(({ address }) => address);
}

/** The jobs that run in one process each, where `findCluster` would look for a cluster on this machine. */
export function findLocalRuns({ agent, dir, env, cwd }: FindOptions): readonly ClusterFile[] {
  if (agent !== undefined) return [];
  if (dir === undefined && resolveConfig({ argv: [], env }).mode === 'cluster') return [];
  const files = dir === undefined ? filesIn(join(cwd, '.shoal')) : filesAt(resolve(cwd, dir));
  return files.filter(({ agents }) => agents.length === 0);
}

const isCluster = ({ agents }: ClusterFile): boolean => agents.length > 0;

const runningAt = (dir: string): readonly ClusterFile[] => filesAt(dir).filter(isCluster);

const runningIn = (parent: string): readonly ClusterFile[] => filesIn(parent).filter(isCluster);

function filesAt(dir: string): readonly ClusterFile[] {
  const found = readClusterFile(dir);
  return found === undefined ? [] : [found];
}

function filesIn(parent: string): readonly ClusterFile[] {
  let names: readonly string[];
  try {
    names = readdirSync(parent);
  } catch {
    return [];
  }
  return names.flatMap((name) => filesAt(join(parent, name)));
}
