import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { play } from '../testing/ledger-transcript.js';
import {
  isOver,
  type Lease,
  type LedgerEvent,
  type LedgerSnapshot,
  type LedgerState,
  newLedger,
  reduceLedger,
  restoreLedger,
  snapshotOf,
} from './ledger.js';

const folder = fileURLToPath(new URL('../testing/transcripts/', import.meta.url));

describe('ledger transcripts', () => {
  test.each(readdirSync(folder))('%s', async (name) => {
    await expect(play(readFileSync(folder + name, 'utf8'))).toMatchFileSnapshot(folder + name);
  });
});

/** Workers that consume leases in steps, on a model that counts each record. */
class World {
  state: LedgerState;
  /** The count of each record of each epoch in the model. */
  counts = new Map<string, number>();
  readonly held = new Map<string, { lease: Lease; at: number }[]>();
  #snapshot: { ledger: string; counts: Map<string, number> };

  constructor(sizes: readonly number[], epochs: number) {
    const shards = sizes.map((records, i) => ({ file: `f${i}`, offset: 0, records }));
    this.state = newLedger({ shards, epochs, seed: 3, shuffleShards: true });
    this.#snapshot = this.#take();
  }

  happen(event: LedgerEvent): void {
    const { state, effects } = reduceLedger(this.state, event);
    this.state = state;
    for (const effect of effects) {
      if (effect.type !== 'grant') continue;
      const mine = this.held.get(effect.worker) ?? [];
      this.held.set(effect.worker, [...mine, { lease: effect.lease, at: effect.lease.from }]);
    }
  }

  /** A step of a worker: consumes records of its oldest lease, then reports. */
  step(worker: string, records: number): void {
    const [first, ...rest] = this.held.get(worker) ?? [];
    if (!first) {
      this.happen({ type: 'ask', worker });
      return;
    }
    const { lease } = first;
    const upTo = Math.min(lease.to, first.at + records);
    for (let i = first.at; i < upTo; i++) {
      const key = `${lease.epoch}/${lease.shard}/${i}`;
      this.counts.set(key, (this.counts.get(key) ?? 0) + 1);
    }
    this.held.set(worker, upTo === lease.to ? rest : [{ lease, at: upTo }, ...rest]);
    this.happen({ type: 'ack', worker, lease: lease.id, from: first.at, upTo });
  }

  lose(worker: string): void {
    this.held.delete(worker);
    this.happen({ type: 'lost', worker });
  }

  snapshot(): void {
    this.#snapshot = this.#take();
  }

  #take() {
    return { ledger: JSON.stringify(snapshotOf(this.state)), counts: new Map(this.counts) };
  }

  restore(): void {
    this.state = restoreLedger(JSON.parse(this.#snapshot.ledger) as LedgerSnapshot, this.state.generation);
    this.counts = new Map(this.#snapshot.counts);
    this.held.clear();
  }
}

const WORKERS = ['w0', 'w1', 'w2'];
const action = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.tuple(
      fc.constant('step' as const),
      fc.constantFrom(...WORKERS),
      fc.integer({ min: 1, max: 4 }),
    ),
  },
  {
    weight: 3,
    arbitrary: fc.tuple(fc.constant('ask' as const), fc.constantFrom(...WORKERS), fc.constant(0)),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(fc.constant('lose' as const), fc.constantFrom(...WORKERS), fc.constant(0)),
  },
  { weight: 1, arbitrary: fc.tuple(fc.constant('snapshot' as const), fc.constant(''), fc.constant(0)) },
  { weight: 1, arbitrary: fc.tuple(fc.constant('restore' as const), fc.constant(''), fc.constant(0)) },
);

test('the surviving model contains every record of every epoch once, whatever fails or is restored', () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(
      sizes,
      fc.integer({ min: 1, max: 3 }),
      fc.array(action, { maxLength: 80 }),
      (shards, epochs, script) => {
        const world = new World(shards, epochs);
        for (const [what, worker, records] of script) {
          if (what === 'step') world.step(worker, records);
          else if (what === 'ask') world.happen({ type: 'ask', worker });
          else if (what === 'lose') world.lose(worker);
          else if (what === 'snapshot') world.snapshot();
          else world.restore();
          expect(Math.max(0, ...world.counts.values())).toBeLessThanOrEqual(1);
          expect(world.state.consumed).toBe(world.counts.size);
        }
        const total = epochs * shards.reduce((sum, size) => sum + size, 0);
        for (let i = 0; !isOver(world.state) && i < 10 * total + 10; i++) {
          for (const worker of WORKERS) world.step(worker, 2);
        }
        expect(isOver(world.state)).toBe(true);
        expect(world.counts.size).toBe(total);
      },
    ),
    { numRuns: 100 },
  );
});

test('a snapshot is JSON', () => {
  const world = new World([3, 4], 2);
  world.step('w0', 1);
  world.step('w0', 2);
  const snapshot = snapshotOf(world.state);
  expect(JSON.parse(JSON.stringify(snapshot))).toEqual(snapshot);
});
