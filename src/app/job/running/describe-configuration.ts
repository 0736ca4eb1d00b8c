/** The configuration of a job and its task, for the page: names and values, without secrets. */
import type { ClusterConfig } from '../../../distributed/cluster/spec/config.js';
import { engineOf } from '../../../distributed/cluster/spec/config.js';
import type { JobDefinition } from '../definition/define-job.js';

const LONGEST = 200;
const MOST = 200;

export function describeConfiguration(
  job: JobDefinition,
  config: ClusterConfig,
): readonly (readonly [string, string])[] {
  const { name, seed, params, train, export: exported } = job;
  const values: [string, string][] = [
    ['job', name],
    ['cluster', config.clusterName.value],
    ['engine', engineOf(config, job.engine)],
    ['tasks', config.spec.tasks.map(({ id }) => id).join(', ')],
    ['heartbeat', `${config.heartbeatMs.value} ms`],
    ['dead after', `${config.deadAfterMs.value} ms`],
  ];
  if (seed !== undefined) values.push(['seed', String(seed)]);
  flatten('train', train, values);
  flatten('params', params ?? {}, values);
  // Where versions are published to may contain names of files with tokens.
  const { publish: _, ...rest } = exported ?? {};
  flatten('export', rest, values);
  return values.slice(0, MOST).map(([key, value]) => [key, shortened(value)] as const);
}

function flatten(prefix: string, value: unknown, into: [string, string][], depth = 0): void {
  if (value === null || value === undefined || typeof value === 'function') return;
  if (typeof value !== 'object') {
    into.push([prefix, String(value)]);
    return;
  }
  if (Array.isArray(value)) {
    into.push([prefix, value.map(String).join(', ')]);
    return;
  }
  // Objects of classes, such as schedules, have no plain values.
  if (Object.getPrototypeOf(value) !== Object.prototype || depth > 2) return;
  for (const [key, part] of Object.entries(value)) flatten(`${prefix}.${key}`, part, into, depth + 1);
}

const shortened = (text: string): string => (text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
