/** The targets of a change: what publishing and rolling back have in common. */
import { hostname } from 'node:os';
import { invalid } from '../../../base/errors/errors.js';
import { parseAddress } from '../../../distributed/cluster/spec/address.js';
import type { Security } from '../../../distributed/cluster/spec/security.js';
import { PublishTarget } from './target.js';
import type { Outcome } from './two-phase.js';

export const DEADLINE_SECS = 600;

export interface TargetsOptions {
  /** The addresses where serving processes accept versions, as `host:port`. */
  readonly to: readonly string[];
  /** The model; default: the only one of each process. */
  readonly model?: string | undefined;
  readonly security?: Security | undefined;
  /** Default: 600. After it nothing is changed. */
  readonly deadlineSecs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: PublishProgress) => void) | undefined;
}

export interface PublishProgress {
  readonly address: string;
  readonly phase: 'waiting' | 'sending' | 'loading' | 'prepared' | 'committing';
  readonly sentBytes: number;
  readonly bytes: number;
}

export interface TargetResult {
  readonly address: string;
  readonly outcome: Outcome;
}

export interface ChangeResult {
  /** The version that serves now. */
  readonly version: number;
  readonly targets: readonly TargetResult[];
}

export async function withTargets<T>(
  { to, security = { kind: 'none' } }: TargetsOptions,
  work: (targets: readonly PublishTarget[]) => Promise<T>,
): Promise<T> {
  if (to.length === 0) throw invalid('there is no target to publish to');
  const addresses = [...new Set(to)];
  for (const address of addresses) parseAddress(address, 'a target');
  const targets = addresses.map((address) => new PublishTarget(address, security));
  try {
    return await work(targets);
  } finally {
    for (const target of targets) target.close();
  }
}

export const resultsOf = (
  targets: readonly PublishTarget[],
  outcomes: ReadonlyMap<PublishTarget, Outcome>,
): readonly TargetResult[] =>
  targets.map((target) => ({ address: target.address, outcome: outcomes.get(target) as Outcome }));

export const whoPublishes = (): string => `process ${process.pid} of ${hostname()}`.slice(0, 300);
