/** The output of `shoal config`: every value of a task's configuration and its source. */
import type { Settings, Sourced, TaskConfig } from './config.js';

export interface ConfigRow {
  readonly name: string;
  readonly value: unknown;
  readonly from: string;
}

/** One row per value, in a fixed order. A token is shown as `(set)`. */
export function configRows(config: TaskConfig): readonly ConfigRow[] {
  const row = (name: string, { value, from }: Sourced<unknown>): ConfigRow => ({
    name,
    value: value ?? null,
    from,
  });
  const settings: Settings = config;
  const common = [
    row('cluster_name', settings.clusterName),
    row('listen', settings.listen),
    row('engine', settings.engine),
    row('tf_port', settings.tfPort),
    row('certs', settings.certs),
    row('cluster_token', { ...settings.clusterToken, value: settings.clusterToken.value && '(set)' }),
    row('insecure_network', settings.insecureNetwork),
    row('heartbeat_ms', settings.heartbeatMs),
    row('dead_after_ms', settings.deadAfterMs),
    row('lost_worker_ms', settings.lostWorkerMs),
    row('grace_secs', settings.graceSecs),
    row('elastic', settings.elastic),
  ];
  if (config.mode === 'local')
    return [{ name: 'mode', value: 'local', from: 'no cluster configured' }, ...common];
  const dict = config.spec.asDict();
  return [
    { name: 'mode', value: 'cluster', from: 'a cluster is configured' },
    row('job_name', config.job),
    row('task_index', config.index),
    { name: 'task', value: config.task, from: 'derived' },
    { name: 'is_chief', value: config.isChief, from: 'derived' },
    ...config.spec.jobs.map((job) => ({
      name: `cluster.${job}`,
      value: dict[job],
      from: config.jobs[job]!.from,
    })),
    ...common,
  ];
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return '-';
  if (Array.isArray(value)) return value.join(', ');
  if (typeof value === 'object') {
    return Object.entries(value)
      .map(([key, item]) => `${key}: ${String(item)}`)
      .join(', ');
  }
  return String(value);
}

export interface DescribeOptions {
  readonly json?: boolean;
}

/** The text of `shoal config`: a table, or JSON. */
export function describeConfig(config: TaskConfig, { json = false }: DescribeOptions = {}): string {
  const rows = configRows(config);
  if (json) {
    return JSON.stringify(
      Object.fromEntries(rows.map(({ name, value, from }) => [name, { value, from }])),
      null,
      2,
    );
  }
  const cells = rows.map(({ name, value, from }) => [name, shown(value), from] as const);
  const width = (column: 0 | 1) => Math.max(...cells.map((cell) => cell[column].length));
  const [first, second] = [width(0), width(1)];
  return cells
    .map(([name, value, from]) => `${name.padEnd(first)}  ${value.padEnd(second)}  ${from}`.trimEnd())
    .join('\n');
}
