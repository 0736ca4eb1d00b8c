/** How often each record was applied, by the ledger of a checkpoint and by the tables in it. */
import type { LedgerSnapshot } from '../../src/training/input/leases/ledger.js';
import { shuffledOrder } from '../../src/training/input/leases/shard-order.js';

/**
 * How often the ledger counts each record as consumed: records are numbered over all files in order. The records of a
 * shard must not be shuffled.
 */
export function timesConsumed({ plan, epoch, next, returned }: LedgerSnapshot): readonly number[] {
  const order = shuffledOrder(plan, epoch);
  const granted = new Set(order.slice(0, next));
  // Shards are in the order of the files and of their records.
  return plan.shards.flatMap(({ records }, shard) => {
    const times = new Array<number>(records).fill(epoch + (granted.has(shard) ? 1 : 0));
    for (const part of returned) {
      if (part.shard !== shard) continue;
      for (let position = part.from; position < part.to; position++) times[position]! -= 1;
    }
    return times;
  });
}

/** The records that a table counts differently. */
export function wronglyApplied(expected: readonly number[], table: readonly number[]): readonly string[] {
  return expected.flatMap((times, record) =>
    table[record] === times ? [] : [`record ${record}: ${table[record]} times instead of ${times}`],
  );
}
