/** The output of `shoal status`: the cluster as one of its tasks sees it. */
import { firstLineOf, ShoalError } from '../../errors/errors.js';
import type { Security } from '../spec/security.js';
import { compareTasks } from '../spec/task-id.js';
import { AgentClient } from './agent-client.js';
import type { ClusterStatus } from './wire.js';

export interface AskStatusOptions {
  readonly addresses: readonly string[];
  readonly security: Security;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** Asks the addresses in turn until one answers. The chief and the ps know the steps of all tasks. */
export async function askStatus(options: AskStatusOptions): Promise<ClusterStatus> {
  const { addresses, security, timeoutMs = 2000, signal } = options;
  const failures: string[] = [];
  for (const address of addresses) {
    const client = new AgentClient({ address, security });
    try {
      return await client.status({ timeoutMs, signal, once: true });
    } catch (error) {
      if (signal?.aborted) throw error;
      failures.push(firstLineOf(error));
    } finally {
      client.close();
    }
  }
  throw new ShoalError('SHOAL_UNREACHABLE', `no task of the cluster answers:\n  ${failures.join('\n  ')}`, {
    hint: 'check the addresses and the credentials, and that the cluster is running',
  });
}

/** A table, or JSON. */
export function describeStatus(
  status: ClusterStatus,
  { json = false }: { readonly json?: boolean } = {},
): string {
  if (json) return JSON.stringify(status, null, 2);
  const head = [
    'task',
    'status',
    'step',
    'agent',
    'server',
    'host',
    'pid',
    'incarnation',
    'starts',
    'silent',
  ];
  const rows = [...status.members]
    .sort((a, b) => compareTasks(a.task, b.task))
    .map((member) => [
      `${member.task}${member.task === status.chief ? ' (chief)' : ''}`,
      member.status,
      member.step === null ? '-' : String(member.step),
      member.agentAddress,
      member.serverAddress ?? '-',
      member.host,
      String(member.pid),
      String(member.incarnation),
      String(member.incarnation - member.first + 1),
      `${(member.silentMs / 1000).toFixed(1)} s`,
    ]);
  const widths = head.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]!.length)));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, i) => cell.padEnd(widths[i]!))
      .join('  ')
      .trimEnd();
  const title = `cluster ${status.cluster}, epoch ${status.epoch}, as seen by ${status.self.task}`;
  return [title, line(head), ...rows.map(line)].join('\n');
}
