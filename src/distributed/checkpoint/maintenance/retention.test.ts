import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Manifest } from '../format/manifest.js';
import { newestFirst } from '../reading/catalog.js';
import { expired } from './retention.js';

const HOUR_MS = 3_600_000;

function manifest(sequence: number, savedAtMs: number): Manifest {
  return {
    format: 'shoal-checkpoint',
    version: 1,
    sequence,
    step: sequence * 10,
    attempt: `a${String(sequence).padStart(4, '0')}`,
    prefix: `model.ckpt-${sequence * 10}`,
    savedAtMs,
    consistency: 'consistent',
    chief: { task: '', incarnation: 0 },
    shards: 1,
    tensors: 1,
    files: [],
    input: null,
  };
}

/** Manifests with times of unreliable clocks, newest first by sequence. */
const history = fc
  .array(fc.integer({ min: 0, max: 50 * HOUR_MS }), { maxLength: 20 })
  .map((times) => times.map((time, i) => manifest(i + 1, time)).sort(newestFirst));
const policy = fc.record({
  keep: fc.integer({ min: -1, max: 6 }),
  everyHours: fc.option(fc.double({ min: 0.1, max: 10, noNaN: true }), { nil: undefined }),
  pinned: fc.subarray(['a0001', 'a0003', 'a0007']).map((attempts) => new Set(attempts)),
});

const sequences = (manifests: readonly Manifest[]) => manifests.map(({ sequence }) => sequence);

describe('checkpoint retention', () => {
  it('keeps as many that are restorable, besides those that a restore has skipped', () => {
    const newest = Array.from({ length: 6 }, (_, i) => manifest(6 - i, 0));
    const skipped = new Set(['a0005', 'a0002']);
    expect(sequences(expired(newest, { keep: 2, skipped }))).toEqual([1, 2, 3]);
    expect(sequences(expired(newest, { keep: 3, skipped }))).toEqual([1, 2]);
    expect(sequences(expired(newest, { keep: 5, skipped }))).toEqual([]);
  });

  it('never removes the newest ones, whatever their times', () => {
    fc.assert(
      fc.property(history, policy, (manifests, retention) => {
        const gone = expired(manifests, retention);
        const stay = manifests.slice(0, retention.keep <= 0 ? manifests.length : retention.keep);
        for (const kept of stay) expect(gone).not.toContain(kept);
      }),
    );
  });

  it('never removes pinned ones', () => {
    fc.assert(
      fc.property(history, policy, (manifests, retention) => {
        const gone = expired(manifests, retention);
        expect(gone.filter(({ attempt }) => retention.pinned.has(attempt))).toEqual([]);
      }),
    );
  });

  it('keeps no more than configured', () => {
    const manifests = [5, 4, 3, 2, 1].map((sequence) => manifest(sequence, sequence));
    expect(sequences(expired(manifests, { keep: 2 }))).toEqual([1, 2, 3]);
    expect(expired(manifests, { keep: 9 })).toEqual([]);
    expect(expired(manifests, { keep: 0 })).toEqual([]);
  });

  it('keeps one per interval of hours permanently, also when applied repeatedly', () => {
    let kept: Manifest[] = [];
    for (let i = 0; i < 40; i++) {
      kept = [manifest(i, i * 0.5 * HOUR_MS), ...kept];
      const gone = new Set(expired(kept, { keep: 2, everyHours: 4 }));
      kept = kept.filter((one) => !gone.has(one));
    }
    expect(sequences(kept)).toEqual([39, 38, 32, 24, 16, 8, 0]);
  });
});
