import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { play } from '../testing/sync-stall-transcript.js';
import { newSyncStall, reduceSyncStall, type SyncView, type SyncWorker } from './sync-stall.js';

const folder = fileURLToPath(new URL('../testing/transcripts/', import.meta.url));

describe('transcripts of synchronous steps', () => {
  it.each(readdirSync(folder))('%s', async (name) => {
    await expect(play(readFileSync(folder + name, 'utf8'))).toMatchFileSnapshot(folder + name);
  });
});

const aWorker = (status: SyncWorker['status'], waits: fc.Arbitrary<boolean>) =>
  fc.record({ task: fc.constant('w'), status: fc.constant(status), waits, tokens: fc.nat(2) });
const aDevice = fc.record({ name: fc.constant('ps'), isTaken: fc.boolean(), gradients: fc.nat(3) });

it('a step is never a stall while a worker that is present computes', () => {
  const aView: fc.Arbitrary<SyncView> = fc.record({
    step: fc.nat(),
    required: fc.nat(4),
    needsAll: fc.boolean(),
    workers: fc
      .tuple(
        aWorker('present', fc.constant(false)),
        fc.array(fc.oneof(aWorker('present', fc.boolean()), aWorker('away', fc.boolean()))),
      )
      .map(([computing, others]) => [computing, ...others]),
    devices: fc.array(aDevice, { minLength: 1 }),
  });
  fc.assert(
    fc.property(aView, (view) => {
      let state = newSyncStall(3000);
      for (let at = 0; at < 100; at++) {
        const next = reduceSyncStall(state, { type: 'seen', at: at * 60_000, view });
        expect(next.effect?.type).toBe('wait');
        state = next.state;
      }
    }),
  );
});
