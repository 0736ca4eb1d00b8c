/** The ledger of data shards as the page shows it. */
import { sizeOfRanges } from '../../../training/input/files/ranges.js';
import type { LedgerState } from '../../../training/input/leases/ledger.js';
import type { PageInput } from '../state.js';

export function describeInput(ledger: LedgerState): PageInput {
  const { plan, epoch, next, returned, consumed, leases, waiting } = ledger;
  const open = leases.map(({ from, to, consumed: done }) => to - from - sizeOfRanges(done));
  return {
    ...{ epoch, epochs: plan.epochs, consumed, returned: returned.length },
    records: plan.shards.reduce((sum, { records }) => sum + records, 0),
    shards: plan.shards.length,
    unleasedShards: plan.shards.length - next,
    leases: leases.length,
    leasedRecords: open.reduce((sum, records) => sum + records, 0),
    holders: new Set(leases.map(({ worker }) => worker)).size,
    waiting: waiting.length,
  };
}
