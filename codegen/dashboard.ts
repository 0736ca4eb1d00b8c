/**
 * docs/grafana-dashboard.json: a dashboard with the metrics of a training cluster. What a panel shows is written here, its
 * query follows from the type of the metric, and its description is the metric's help. Every metric is in a panel, and a
 * panel with a metric that does not exist is an error.
 */
import type { MetricFamily } from '../src/base/metrics/metrics.js';
import { Traffic } from '../src/distributed/cluster/agent/traffic.js';
import { engineMetric } from '../src/distributed/cluster/runtime/cluster-server.js';
import { taskId } from '../src/distributed/cluster/spec/task-id.js';
import { taskMetrics } from '../src/distributed/cluster/task/task-metrics.js';
import { TrainingMetrics } from '../src/training/train/task/training-metrics.js';
import type { GeneratedFolder } from './output.js';

interface Curve {
  readonly metric: string;
  /** Of a histogram this quantile; default: of a counter its rate, of a gauge its value. */
  readonly quantile?: number;
  /** `max`: one value for the cluster, which all tasks report. Default: one for each task. */
  readonly of?: 'max';
  /** A label that divides the values of a task. */
  readonly by?: string;
  /** Of a counter: how often in the range of the dashboard. */
  readonly isCount?: true;
  readonly legend?: string;
}

interface Panel {
  readonly title: string;
  /** As Grafana names it. */
  readonly unit: string;
  /** Default: curves over time; of counts, numbers. */
  readonly kind?: 'stat' | 'table';
  readonly curves: readonly Curve[];
}

const ROWS: Readonly<Record<string, readonly Panel[]>> = {
  Training: [
    { title: 'Global step', unit: 'short', curves: [{ metric: 'shoal_global_step', of: 'max' }] },
    { title: 'Steps per second', unit: 'short', curves: [{ metric: 'shoal_steps_total' }] },
    {
      title: 'Time of a step',
      unit: 's',
      curves: [
        { metric: 'shoal_step_seconds', quantile: 0.5 },
        { metric: 'shoal_step_seconds', quantile: 0.99 },
      ],
    },
    { title: 'Records per second', unit: 'short', curves: [{ metric: 'shoal_leased_records_total' }] },
    { title: 'Leases held', unit: 'short', curves: [{ metric: 'shoal_leases_held' }] },
    {
      title: 'Leases completed per second',
      unit: 'short',
      curves: [{ metric: 'shoal_leases_completed_total' }],
    },
  ],
  Recovery: [
    { title: 'Tasks', unit: 'short', curves: [{ metric: 'shoal_members', of: 'max', by: 'status' }] },
    {
      title: 'Recoveries',
      unit: 'short',
      curves: [{ metric: 'shoal_recoveries_total', by: 'mode', isCount: true }],
    },
    {
      title: 'Time in recoveries',
      unit: 's',
      curves: [{ metric: 'shoal_recovery_seconds_total', by: 'phase', isCount: true }],
    },
    {
      title: 'Repeated steps',
      unit: 'short',
      curves: [{ metric: 'shoal_repeated_steps_total', isCount: true }],
    },
    { title: 'Restarts', unit: 'short', curves: [{ metric: 'shoal_restarts_total', isCount: true }] },
    { title: 'Epoch', unit: 'short', curves: [{ metric: 'shoal_epoch', of: 'max' }] },
  ],
  Checkpoints: [
    {
      title: 'Saves',
      unit: 'short',
      curves: [
        { metric: 'shoal_saves_total', isCount: true, legend: 'committed' },
        { metric: 'shoal_failed_saves_total', isCount: true, legend: 'failed' },
      ],
    },
    {
      title: 'Time of a save',
      unit: 's',
      curves: [
        { metric: 'shoal_save_seconds', quantile: 0.5 },
        { metric: 'shoal_save_seconds', quantile: 0.99 },
      ],
    },
    { title: 'Checkpoints, bytes per second', unit: 'Bps', curves: [{ metric: 'shoal_saved_bytes_total' }] },
    { title: 'Shards, bytes per second', unit: 'Bps', curves: [{ metric: 'shoal_shard_bytes_total' }] },
  ],
  Tasks: [
    { title: 'Memory', unit: 'bytes', curves: [{ metric: 'process_resident_memory_bytes' }] },
    { title: 'Processors in use', unit: 'short', curves: [{ metric: 'process_cpu_seconds_total' }] },
    { title: 'Sent', unit: 'Bps', curves: [{ metric: 'shoal_agent_sent_bytes_total' }] },
    { title: 'Received', unit: 'Bps', curves: [{ metric: 'shoal_agent_received_bytes_total' }] },
    {
      title: 'Processes since',
      unit: 'dateTimeAsIso',
      kind: 'stat',
      // Grafana's times are milliseconds.
      curves: [{ metric: 'process_start_time_seconds' }],
    },
    {
      title: 'Releases',
      unit: 'short',
      kind: 'table',
      curves: [{ metric: 'shoal_build_info', by: 'version, node' }],
    },
    {
      title: 'Engines',
      unit: 'short',
      kind: 'table',
      curves: [{ metric: 'shoal_engine_info', by: 'engine' }],
    },
  ],
};

/** In every query: it names the tasks. */
const TASKS = 'shoal_task_info{cluster=~"$cluster", task=~"$task"}';
const BY_TASK = `* on (job, instance) group_left (task) ${TASKS}`;

/** The metrics of a task of a training cluster. */
export function trainingMetrics(): readonly MetricFamily[] {
  const metrics = taskMetrics({
    cluster: '',
    task: taskId('worker', 0),
    state: () => undefined,
    traffic: new Traffic(),
  });
  engineMetric(metrics, 'direct');
  new TrainingMetrics(metrics);
  return metrics.families;
}

export function promQuery({ metric, quantile, of, by, isCount }: Curve, type: MetricFamily['type']): string {
  const range = isCount ? '$__range' : '$__rate_interval';
  if (type === 'histogram') {
    const buckets = `rate(${metric}_bucket[$__rate_interval]) ${BY_TASK}`;
    return `histogram_quantile(${quantile ?? 0.5}, sum by (le, task) (${buckets}))`;
  }
  const value = isCount
    ? `increase(${metric}[${range}])`
    : type === 'counter'
      ? `rate(${metric}[${range}])`
      : metric;
  const scaled = metric === 'process_start_time_seconds' ? `1000 * ${value}` : value;
  const labels = [...(of === undefined ? ['task'] : []), ...(by === undefined ? [] : [by])];
  const named = `${of ?? 'sum'}${labels.length > 0 ? ` by (${labels.join(', ')})` : ''}`;
  return `${named} (${scaled} ${BY_TASK})`;
}

const SIZE = { w: 8, h: 7 };
const DATA = { type: 'prometheus', uid: '$datasource' };

function panelOf({ title, unit, kind, curves }: Panel, families: ReadonlyMap<string, MetricFamily>): object {
  const type = kind ?? (curves.some(({ isCount }) => isCount) ? 'stat' : 'timeseries');
  const known = curves.map((curve) => {
    const family = families.get(curve.metric);
    if (!family) throw new Error(`panel ${title}: there is no metric ${curve.metric}`);
    return { curve, family };
  });
  const targets = known.map(({ curve, family }, at) => ({
    refId: String.fromCharCode(65 + at),
    datasource: DATA,
    expr: promQuery(curve, family.type),
    legendFormat: legendOf(curve),
    ...(type !== 'timeseries' && { instant: true, range: false }),
    ...(type === 'table' && { format: 'table' }),
  }));
  return {
    type,
    title,
    description: [...new Set(known.map(({ family }) => family.help))].join('\n'),
    datasource: DATA,
    fieldConfig: { defaults: { unit }, overrides: [] },
    targets,
  };
}

function legendOf({ of, by, quantile, legend }: Curve): string {
  const parts = [
    ...(of === undefined ? ['{{task}}'] : []),
    ...(by === undefined ? [] : by.split(', ').map((label) => `{{${label}}}`)),
    ...(quantile === undefined ? [] : [`p${quantile * 100}`]),
    ...(legend === undefined ? [] : [legend]),
  ];
  return parts.length === 0 ? 'cluster' : parts.join(' · ');
}

const variable = (name: string, label: string, query: string) => ({
  ...{ type: 'query', name, label, datasource: DATA, query, refresh: 2, sort: 1 },
  ...{ multi: true, includeAll: true, current: { text: 'All', value: '$__all' } },
});

export function dashboard(): object {
  const families = new Map(trainingMetrics().map((family) => [family.name, family]));
  const shown = new Set(
    Object.values(ROWS).flatMap((row) => row.flatMap(({ curves }) => curves.map(({ metric }) => metric))),
  );
  const missing = [...families.keys()].filter((name) => !shown.has(name) && name !== 'shoal_task_info');
  if (missing.length > 0) throw new Error(`no panel of the dashboard shows ${missing.join(', ')}`);
  let [id, y] = [0, 0];
  const panels = Object.entries(ROWS).flatMap(([title, row]) => {
    const head = {
      id: ++id,
      type: 'row',
      title,
      collapsed: false,
      gridPos: { x: 0, y, w: 24, h: 1 },
      panels: [],
    };
    const at = y + 1;
    y = at + SIZE.h * Math.ceil(row.length / 3);
    const own = row.map((panel, i) => {
      const gridPos = { x: (i % 3) * SIZE.w, y: at + Math.floor(i / 3) * SIZE.h, ...SIZE };
      return { id: ++id, gridPos, ...panelOf(panel, families) };
    });
    return [head, ...own];
  });
  return {
    ...{ title: 'Shoal', uid: 'shoal-training', tags: ['shoal'], schemaVersion: 39, version: 1 },
    ...{ editable: true, refresh: '10s', time: { from: 'now-1h', to: 'now' } },
    templating: {
      list: [
        { type: 'datasource', name: 'datasource', label: 'Prometheus', query: 'prometheus' },
        variable('cluster', 'Cluster', 'label_values(shoal_task_info, cluster)'),
        variable('task', 'Task', 'label_values(shoal_task_info{cluster=~"$cluster"}, task)'),
      ],
    },
    panels,
  };
}

export function generateDashboard(): GeneratedFolder {
  const text = `${JSON.stringify(dashboard(), null, 2)}\n`;
  return { folder: 'docs', isShared: true, files: new Map([['grafana-dashboard.json', text]]) };
}
