/** The intervals of membership; some defaults derive from the other values. */
import type { MembershipSettings } from './types.js';

export function membershipSettings(given: Partial<MembershipSettings> = {}): MembershipSettings {
  const { heartbeatMs = 500, deadAfterMs = 10_000 } = given;
  const {
    suspectAfterMs = Math.max(2 * heartbeatMs, deadAfterMs / 4),
    retryMs = Math.max(4 * heartbeatMs, 500),
    maxBlockedMs = 30 * deadAfterMs,
    forgetAfterMs = Math.max(30 * deadAfterMs, 300_000),
  } = given;
  return { heartbeatMs, suspectAfterMs, deadAfterMs, maxBlockedMs, forgetAfterMs, retryMs };
}
