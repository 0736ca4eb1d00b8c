/** The metrics that every task has: what it is, its membership, its process, and the traffic of its agent. */
import { packageVersion } from '../../../base/files/package.js';
import { Metrics } from '../../../base/metrics/metrics.js';
import type { Traffic } from '../agent/traffic.js';
import type { MemberStatus, Membership } from '../membership/types.js';
import type { TaskId } from '../spec/task-id.js';

export interface TaskMetricsSources {
  readonly cluster: string;
  readonly task: TaskId;
  /** Undefined while the task starts. */
  readonly state: () => Membership | undefined;
  readonly traffic: Traffic;
}

const STATUSES: readonly MemberStatus[] = ['alive', 'suspect', 'dead', 'left'];

export function taskMetrics({ cluster, task, state, traffic }: TaskMetricsSources): Metrics {
  const metrics = new Metrics();
  const build = { version: packageVersion(), node: process.version };
  metrics.readGauge('shoal_build_info', 'The version of Shoal and of Node; the value is always 1.', () => [
    { labels: build, value: 1 },
  ]);
  metrics.readGauge('shoal_task_info', 'The task of this agent; the value is always 1.', () => [
    { labels: { cluster, task }, value: 1 },
  ]);
  metrics.readCounter('shoal_restarts_total', 'How often this task was restarted, as far as known.', () => {
    const self = state()?.members.get(task);
    return self && self.incarnation - self.first;
  });
  metrics.readGauge(
    'shoal_epoch',
    'Rises with each change that makes workers open new sessions.',
    () => state()?.epoch,
  );
  metrics.readGauge('shoal_members', 'The tasks of the cluster by status, as this task sees them.', () => {
    const members = [...(state()?.members.values() ?? [])];
    return STATUSES.map((status) => ({
      labels: { status },
      value: members.filter((member) => member.status === status).length,
    }));
  });
  metrics.readGauge('shoal_global_step', 'The highest global step that a task has reported.', () => {
    const steps = [...(state()?.members.values() ?? [])].flatMap(({ step }) => step ?? []);
    return steps.length === 0 ? undefined : Math.max(...steps);
  });
  metrics.readCounter(
    'shoal_agent_received_bytes_total',
    'Bytes that this task received over connections of the agents. The engine grpc has connections of its own.',
    () => traffic.received,
  );
  metrics.readCounter(
    'shoal_agent_sent_bytes_total',
    'Bytes that this task sent over connections of the agents. The engine grpc has connections of its own.',
    () => traffic.sent,
  );
  metrics.readGauge('process_resident_memory_bytes', 'Resident memory of the process.', () =>
    process.memoryUsage.rss(),
  );
  metrics.readCounter('process_cpu_seconds_total', 'Processor time of the process.', () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  metrics.readGauge(
    'process_start_time_seconds',
    'When the process started, in seconds since 1970.',
    () => performance.timeOrigin / 1000,
  );
  return metrics;
}
