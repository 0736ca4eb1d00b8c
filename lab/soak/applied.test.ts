import { expect, it } from 'vitest';
import {
  type LedgerState,
  newLedger,
  reduceLedger,
  snapshotOf,
} from '../../src/training/input/leases/ledger.js';
import { timesConsumed, wronglyApplied } from './applied.js';

const shards = [0, 1, 2].map((file) => ({ file: `f${file}`, offset: 0, records: 4 }));
const plan = { shards, epochs: null, seed: 7, shuffleShards: true };

const ask = (state: LedgerState, worker: string) => {
  const { state: after, effects } = reduceLedger(state, { type: 'ask', worker });
  const grant = effects.find((effect) => effect.type === 'grant');
  return { state: after, lease: grant!.lease };
};

it('counts complete epochs, granted shards, and what of them was not consumed', () => {
  const counted = new Array<number>(12).fill(0);
  let state = newLedger(plan);
  // Five shards: an epoch and two shards of the next.
  for (let i = 0; i < 5; i++) {
    const { state: after, lease } = ask(state, 'a');
    const upTo = i === 4 ? 1 : 4;
    for (let position = lease.from; position < upTo; position++) counted[4 * lease.shard + position]! += 1;
    state = reduceLedger(after, { type: 'ack', worker: 'a', lease: lease.id, upTo }).state;
  }
  const snapshot = snapshotOf(state);
  expect(timesConsumed(snapshot)).toEqual(counted);
  expect(snapshot.consumed).toBe(counted.reduce((a, b) => a + b));
});

it('lists the records that were applied too often', () => {
  expect(wronglyApplied([1, 1, 2], [1, 2, 2])).toEqual(['record 1: 2 times instead of 1']);
});
