/** The cluster as one of its tasks sees it. */
import type { ClusterStatus } from '../agent/wire.js';
import { blockedMs, viewOf } from '../membership/membership.js';
import type { Membership } from '../membership/types.js';

export function clusterStatus(cluster: string, state: Membership, now: number): ClusterStatus {
  const { epoch, chief, self, members, settings } = state;
  return {
    cluster,
    epoch,
    chief: chief ?? null,
    self,
    members: [...members.values()].map((member) => {
      const busyMs = blockedMs(member, settings, now);
      return {
        ...viewOf(member),
        silentMs: member.task === self.task ? 0 : Math.max(0, Math.round(now - member.lastSeen)),
        ...(busyMs !== undefined && { busyMs: Math.round(busyMs) }),
      };
    }),
  };
}

/** That the main thread of a task is blocked, in words. */
export const busyText = (busyMs: number): string =>
  `busy, main thread blocked for ${Math.round(busyMs / 1000)} s`;
