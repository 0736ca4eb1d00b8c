/** The order of shards in an epoch and of records in a shard: the same for the same seed, on every machine. */
import type { LedgerPlan } from './ledger.js';

/** A 32-bit hash of the three numbers. */
export function shardSeed(seed: number, epoch: number, shard: number): number {
  let hash = seed | 0;
  for (const value of [epoch + 1, shard + 1]) {
    hash = Math.imul(hash ^ value, 0x9e3779b1);
    hash ^= hash >>> 15;
    hash = Math.imul(hash, 0x85ebca77);
    hash ^= hash >>> 13;
  }
  // TensorFlow treats two zeros as no seed.
  return hash >>> 0 || 1;
}

/** The shard numbers, shuffled for each epoch if the plan says so. */
export function shuffledOrder(plan: LedgerPlan, epoch: number): number[] {
  const order = plan.shards.map((_, shard) => shard);
  if (!plan.shuffleShards) return order;
  for (let i = order.length - 1; i > 0; i--) {
    const other = shardSeed(plan.seed, epoch, i) % (i + 1);
    [order[i], order[other]] = [order[other] as number, order[i] as number];
  }
  return order;
}
