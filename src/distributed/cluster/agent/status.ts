/** Asks a task for the state of the cluster as it sees it. */
import { firstLineOf, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import type { Security } from '../spec/security.js';
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
      if (signal?.aborted || isShoalError(error, 'SHOAL_VERSION_MISMATCH')) throw error;
      failures.push(firstLineOf(error));
    } finally {
      client.close();
    }
  }
  throw new ShoalError('SHOAL_UNREACHABLE', `no task of the cluster answers:\n  ${failures.join('\n  ')}`, {
    hint: 'check the addresses and the credentials, and that the cluster is running',
  });
}
