/** The output of `shoal status`: the cluster as one of its tasks sees it, or a job in one process. */

import { moment, table } from '../../../../base/text/format.js';
import type { ClusterStatus } from '../../../../distributed/cluster/agent/wire.js';
import { compareTasks } from '../../../../distributed/cluster/spec/task-id.js';
import { busyText } from '../../../../distributed/cluster/task/cluster-status.js';
import type { ClusterFile } from '../../../job/launcher/cluster-file.js';
import { stepOf } from '../../../job/running/step-text.js';

/** The line of a job in one process. */
export function describeLocalRun({ job, launcher, startedMs, progress }: ClusterFile): string {
  return [
    `job ${job} runs in one process`,
    progress === undefined ? 'no step yet' : stepOf(progress.step, progress.lastStep),
    `pid ${launcher}`,
    ...(startedMs === undefined ? [] : [`since ${moment(startedMs)}`]),
  ].join(' · ');
}

/** The same as an object. */
export const localRunAsJson = ({ job, launcher, startedMs, progress }: ClusterFile) => ({
  job,
  pid: launcher,
  startedMs: startedMs ?? null,
  step: progress?.step ?? null,
  lastStep: progress?.lastStep ?? null,
});

type Member = ClusterStatus['members'][number];

interface Column {
  readonly title: string;
  readonly cell: (member: Member) => string;
  /** Shown with --verbose only. */
  readonly isDetail?: true;
}

const COLUMNS: readonly Column[] = [
  {
    title: 'status',
    cell: ({ status, busyMs }) => (busyMs === undefined ? status : busyText(busyMs)),
  },
  { title: 'step', cell: ({ step }) => (step === null ? '-' : String(step)) },
  { title: 'restarts', cell: ({ incarnation, first }) => String(incarnation - first) },
  { title: 'last seen', cell: ({ silentMs }) => `${(silentMs / 1000).toFixed(1)} s ago` },
  { title: 'host', cell: ({ host }) => host },
  { title: 'pid', cell: ({ pid }) => String(pid) },
  { title: 'agent', cell: ({ agentAddress }) => agentAddress, isDetail: true },
  { title: 'TensorFlow', cell: ({ serverAddress }) => serverAddress ?? '-', isDetail: true },
  { title: 'incarnation', cell: ({ incarnation }) => String(incarnation), isDetail: true },
];

export function describeStatus(
  { cluster, epoch, chief, self, members }: ClusterStatus,
  { verbose = false }: { readonly verbose?: boolean } = {},
): string {
  const columns = COLUMNS.filter(({ isDetail }) => verbose || !isDetail);
  const rows = [...members]
    .sort((a, b) => compareTasks(a.task, b.task))
    .map((member) => [
      `${member.task}${member.task === chief ? ' (chief)' : ''}`,
      ...columns.map(({ cell }) => cell(member)),
    ]);
  const number = (of: Member['status']) => members.filter(({ status }) => status === of).length;
  const left = number('left');
  const detail = verbose ? ` · epoch ${epoch} · as seen by ${self.task}` : '';
  return [
    `cluster ${cluster} · ${number('alive')} of ${members.length - left} tasks alive${left > 0 ? `, ${left} left` : ''}${detail}`,
    table(['task', ...columns.map(({ title }) => title)], rows),
  ].join('\n');
}
