/** Returns serving processes to the version before the newest one, all or none. */
import { invalid, ShoalError } from '../../../base/errors/errors.js';
import type { PublishTarget } from './target.js';
import {
  type ChangeResult,
  DEADLINE_SECS,
  resultsOf,
  type TargetsOptions,
  whoPublishes,
  withTargets,
} from './targets.js';
import { changeAll, type Refusal } from './two-phase.js';
import type { BeginRequest, ModelReport } from './wire.js';

/** Returns all targets to the version before the newest one, which stays hidden on their disks. */
export async function rollBack(options: TargetsOptions): Promise<ChangeResult> {
  return withTargets(options, async (targets) => {
    const { signal, model } = options;
    let version = 0;
    // A publication that was waited for changes which version is the newest.
    const request = async (either: AbortSignal): Promise<BeginRequest> => {
      const reports = await Promise.all(
        targets.map(async (target) => ({
          target,
          report: modelIn(await target.models(either), target, model),
        })),
      );
      const { from, to } = stepBack(reports);
      version = to;
      return { kind: 'rollback', model, by: whoPublishes(), from, to };
    };
    const outcomes = await changeAll(targets, {
      request,
      prepare: (target, id, either) => target.reach(id, 'prepared', either),
      judge,
      skipsAbsent: false,
      deadlineMs: (options.deadlineSecs ?? DEADLINE_SECS) * 1000,
      signal,
    });
    return { version, targets: resultsOf(targets, outcomes) };
  });
}

function judge({ address }: PublishTarget, reply: Refusal): void {
  if (reply.outcome !== 'older') return;
  throw new ShoalError('SHOAL_ABORTED', `${address} received version ${reply.newest} at this moment`, {
    hint: 'Nothing was changed. Roll back again, if that version shall be taken back too.',
  });
}

function modelIn(
  models: readonly ModelReport[],
  { address }: PublishTarget,
  wanted: string | undefined,
): ModelReport {
  const only = models.length === 1 ? models[0] : undefined;
  const found = wanted === undefined ? only : models.find(({ name }) => name === wanted);
  if (found) return found;
  const names = models.map(({ name }) => name).join(', ') || 'none';
  throw new ShoalError('SHOAL_NOT_FOUND', `${address} has no model ${wanted ?? 'that is the only one'}`, {
    hint: `It takes versions of: ${names}. Name one with --model=NAME.`,
  });
}

/**
 * The newest version of any target, and the one before it that all have. A target without the newest one must be at the
 * one before: then a repeated rollback only completes the first.
 */
function stepBack(reports: readonly { readonly target: PublishTarget; readonly report: ModelReport }[]): {
  readonly from: number;
  readonly to: number;
} {
  const held = reports.map(({ target, report }) => ({
    address: target.address,
    versions: report.versions.filter(({ isOnDisk }) => isOnDisk).map(({ version }) => version),
  }));
  const from = Math.max(...held.flatMap(({ versions }) => versions));
  const before = held.map(({ versions }) => versions.filter((version) => version < from));
  const common = (before[0] ?? []).filter((version) =>
    before.every((versions) => versions.includes(version)),
  );
  const to = Math.max(...common);
  const list = held.map(({ address, versions }) => `${address}: ${versions.join(', ') || 'none'}`).join('; ');
  const hint = `On the disks are: ${list}. shoal serve --publish_keep=N keeps more.`;
  if (common.length === 0)
    throw new ShoalError('SHOAL_NOT_FOUND', 'there is no earlier version that all targets have', { hint });
  for (const { address, versions } of held)
    if (!versions.includes(from) && Math.max(...versions) !== to)
      throw invalid(`${address} has neither version ${from} nor ${to} as its newest`, { hint });
  return { from, to };
}
