/** The question that a task asks before it takes its incarnation: which earlier ones of it do the others know? */
import { describeError, isShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { AgentClient } from '../agent/agent-client.js';
import type { ClusterStatus } from '../agent/wire.js';
import { MAX_LEAD } from '../membership/claims.js';
import type { Contact } from '../membership/types.js';
import type { TaskId } from '../spec/task-id.js';

export interface EarlierIncarnationsOptions {
  readonly contacts: readonly Contact[];
  readonly clientOf: (contact: Contact) => AgentClient;
  readonly timeoutMs: number;
  /** The time of the clock: incarnations far ahead of it are ignored. */
  readonly wall: number;
  readonly onNotice: Log;
}

/**
 * Slow peers are skipped. Rejects if this release cannot work with most of them: with fewer, those are the ones that do
 * not belong to the cluster, such as a process that an upgrade has left behind.
 */
export async function earlierIncarnations(
  self: TaskId,
  { contacts, clientOf, timeoutMs, wall, onNotice }: EarlierIncarnationsOptions,
): Promise<ClusterStatus['members']> {
  const mismatches: unknown[] = [];
  const answers = contacts.map(async (contact) => {
    const client = clientOf(contact);
    try {
      const { members } = await client.status({ timeoutMs, once: true });
      const limit = wall + MAX_LEAD;
      return members.filter((member) => member.task === self && member.incarnation <= limit);
    } catch (error) {
      const isMismatch = isShoalError(error, 'SHOAL_VERSION_MISMATCH');
      if (isMismatch) mismatches.push(error);
      if (isMismatch || isShoalError(error, 'SHOAL_FORBIDDEN')) onNotice(describeError(error), 'warn');
      return [];
    } finally {
      client.close();
    }
  });
  const earlier = (await Promise.all(answers)).flat();
  const others = contacts.filter(({ task }) => task !== self);
  if (mismatches.length > 0 && areMost(mismatches.length, others.length)) throw mismatches[0];
  return earlier;
}

/** Whether so many peers are at least half of all. */
export const areMost = (count: number, all: number): boolean => 2 * count >= all;
