/** The order of shards in an epoch and of records in a shard: the same for the same seed, on every machine. */

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

/** What determines the order of shards. */
interface ShardOrder {
  readonly shards: readonly unknown[];
  readonly seed: number;
  readonly shuffleShards: boolean;
}

/** The shard numbers, shuffled for each epoch if the plan says so. */
export function shuffledOrder(plan: ShardOrder, epoch: number): number[] {
  const order = plan.shards.map((_, shard) => shard);
  if (!plan.shuffleShards) return order;
  for (let i = order.length - 1; i > 0; i--) {
    const other = shardSeed(plan.seed, epoch, i) % (i + 1);
    [order[i], order[other]] = [order[other] as number, order[i] as number];
  }
  return order;
}
