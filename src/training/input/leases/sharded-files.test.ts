/** Snapshots under a newer plan, and plans for several workers. */
import { describe, expect, test } from 'vitest';
import type { Shard } from '../dataset/record-ranges.js';
import type { LedgerPlan, LedgerSnapshot } from './ledger.js';
import { adoptSnapshot, splitFairly } from './sharded-files.js';

const shard = (file: string, offset: number, records: number, size = 100): Shard => ({
  file,
  offset,
  records,
  size,
});
const planOf = (...shards: Shard[]): LedgerPlan => ({ shards, epochs: 2, seed: 1, shuffleShards: false });
const snapshotOf = (...shards: Shard[]): LedgerSnapshot => ({
  version: 1,
  plan: { ...planOf(...shards), epochs: 1 },
  generation: 3,
  epoch: 0,
  next: 1,
  returned: [],
  consumed: 4,
});

describe('a snapshot', () => {
  test('keeps its shards when the same files are split differently, without a notice', () => {
    const { snapshot, notice } = adoptSnapshot(
      snapshotOf(shard('a', 0, 6), shard('a', 60, 4)),
      planOf(shard('a', 0, 2), shard('a', 20, 8)),
    );
    expect(notice).toBeUndefined();
    expect(snapshot.plan.shards).toEqual([shard('a', 0, 6), shard('a', 60, 4)]);
    expect(snapshot.plan.epochs).toBe(2);
  });

  test('follows files that were moved', () => {
    const { snapshot, notice } = adoptSnapshot(
      snapshotOf(shard('/old/a', 0, 6), shard('/old/b', 0, 4)),
      planOf(shard('/new/a', 0, 6), shard('/new/b', 0, 4)),
    );
    expect(notice).toBeUndefined();
    expect(snapshot.plan.shards.map(({ file }) => file)).toEqual(['/new/a', '/new/b']);
  });

  test('of a file that has grown reads its original records, with a notice', () => {
    const { snapshot, notice } = adoptSnapshot(
      snapshotOf(shard('a', 0, 6, 100)),
      planOf(shard('a', 0, 9, 150)),
    );
    expect(notice).toMatch(/differ from those of the checkpoint/);
    expect(snapshot.plan.shards).toEqual([shard('a', 0, 6, 150)]);
  });
});

describe('shards for several workers', () => {
  const split = async (most: number) => ({
    shards: Array.from({ length: Math.ceil(1000 / most) }, (_, i) =>
      shard('a', i, Math.min(most, 1000 - i * most)),
    ),
  });

  test('are at least four per worker, of complete batches', async () => {
    const { shards } = await splitFairly(10, 3, split);
    expect(shards.length).toBeGreaterThanOrEqual(12);
    expect(shards[0]?.records).toBe(80);
  });

  test('are no smaller than a batch', async () => {
    const { shards } = await splitFairly(400, 3, split);
    expect(shards.map(({ records }) => records)).toEqual([400, 400, 200]);
  });

  test('are large for a single worker', async () => {
    expect((await splitFairly(10, 1, split)).shards).toHaveLength(1);
  });
});
