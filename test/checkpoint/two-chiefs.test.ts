/** Concurrent chiefs: of two saves at once each is complete or invisible, and the chief that was replaced commits nothing. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ShoalError } from '../../src/base/errors/errors.js';
import type { Manifest } from '../../src/distributed/checkpoint/format/manifest.js';
import { fileBlob } from '../../src/distributed/checkpoint/format/names.js';
import type { SaveRequest } from '../../src/distributed/checkpoint/protocol/save.js';
import { completeCheckpoints } from './complete-checkpoints.js';
import { TestCluster, Training } from './test-cluster.js';

let cluster: TestCluster;
beforeEach(() => {
  cluster = new TestCluster();
});
afterEach(() => cluster[Symbol.asyncDispose]());

const steps = (manifests: readonly Manifest[]) => manifests.map(({ step }) => step);
const expectComplete = () => completeCheckpoints(cluster);

describe('two chiefs at once', () => {
  /** Two concurrent saves, while all values change between steps. */
  async function race(delayMs: number): Promise<void> {
    const training = new Training(cluster);
    const request = (): Partial<SaveRequest> => ({
      consistency: 'consistent',
      step: async () => ({ step: training.step }),
    });
    const chiefs = [1, 2].map((incarnation) =>
      cluster.chief({ incarnation, pauseControl: training.pauseControl(), attempts: 5 }),
    );
    const outcomes = await Promise.allSettled(
      chiefs.map(async (chief, i) => {
        await new Promise((resolve) => setTimeout(resolve, i * delayMs));
        return (await chief.save(cluster.request(0, request())))!.manifest;
      }),
    );
    await training.end();
    const manifests = await expectComplete();
    for (const outcome of outcomes) {
      if (outcome.status === 'fulfilled') {
        expect(manifests.map(({ attempt }) => attempt)).toContain(outcome.value.attempt);
      }
    }
    expect(manifests.length).toBeGreaterThanOrEqual(1);
  }

  it.each([0, 1, 3, 10, 20, 30, 40, 60, 90, 150])(
    'the second %i ms later: every committed checkpoint is complete and of one step',
    async (delayMs) => {
      await race(delayMs);
    },
  );

  it('with the same step and sequence: both are complete, and the higher incarnation is the newer', async () => {
    const [older, newer] = [cluster.chief({ incarnation: 5 }), cluster.chief({ incarnation: 6 })];
    await cluster.set(4);
    // The second save starts after the first has taken its sequence and written its data.
    let other: Promise<Manifest> | undefined;
    const first = await newer.save(
      cluster.request(4, {
        meta: () => {
          other = older.save(cluster.request(4)).then((outcome) => outcome!.manifest);
          return Buffer.from('a graph');
        },
      }),
    );
    const second = await other!;
    const manifests = await expectComplete();
    expect(manifests.map(({ sequence }) => sequence)).toEqual([1, 1]);
    expect(manifests.map(({ attempt }) => attempt)).toEqual([first!.manifest.attempt, second.attempt]);
  });

  /** A store without agents, where nothing rejects a chief that was replaced. */
  describe('of which one was replaced', () => {
    it('right before its manifest, after failed saves: the newest is complete and of the successor', async () => {
      await cluster.save(cluster.chief({ incarnation: 4 }), 1);
      let isReplaced = false;
      const older = cluster.chief({
        incarnation: 5,
        attempts: 3,
        confirmChief: async () => {
          if (isReplaced) return;
          isReplaced = true;
          await cluster.save(cluster.chief({ incarnation: 6 }), 3);
        },
      });
      let times = 0;
      cluster.disks.at('chief/0').isFull = (name) => name.endsWith('.index') && ++times <= 2;
      await cluster.save(older, 2);
      // Nothing rejected the manifest, and the successor has removed its files.
      expect(steps(await older.list())).toEqual([3, 2, 1]);
      const [newest] = await older.list();
      await cluster.set(777);
      await cluster.chief().restore(newest!, { variables: cluster.variables });
      expect(await cluster.step()).toBe(3);
    });

    it('with files that its successor cannot reach: they stay while its manifest could be the newest', async () => {
      const blob = fileBlob(
        'job',
        { prefix: 'model.ckpt-9', attempt: '5-8-aaaaaaaaaaaa' },
        'model.ckpt-9.data-00000-of-00002',
      );
      await cluster.disks.put('worker/0', blob, Buffer.from('a shard'));
      const worker = cluster.disks.at('worker/0');
      worker.isAway = true;
      const successor = cluster.chief({ incarnation: 6 });
      // It comes back between the choice of the sequence and the removal of old files.
      const meta = () => {
        worker.isAway = false;
        return Buffer.from('a graph');
      };
      expect((await cluster.save(successor, 1, { meta })).sequence).toBe(1);
      expect(await cluster.blobs()).toContain(blob);
      expect((await cluster.save(cluster.chief({ incarnation: 7 }), 2)).sequence).toBe(9);
      expect(await cluster.blobs()).not.toContain(blob);
    });

    it('publishes and removes nothing when another task reports it', async () => {
      const replaced = new ShoalError('SHOAL_FORBIDDEN', 'this chief has been replaced');
      let isReplaced = false;
      const confirmChief = async () => {
        if (isReplaced) throw replaced;
      };
      const older = cluster.chief({ incarnation: 5, retention: { keep: 1 }, confirmChief });
      await cluster.save(older, 1);
      isReplaced = true;
      await expect(cluster.save(older, 2)).rejects.toBe(replaced);
      await cluster.save(cluster.chief({ incarnation: 6 }), 3);
      await cluster.chief({ incarnation: 5, retention: { keep: 1 }, confirmChief }).tidy();
      expect(steps(await expectComplete())).toEqual([3, 1]);
    });
  });

  it('neither removes files that the other is writing', async () => {
    for (const [first, second] of [
      [5, 6],
      [6, 5],
    ] as const) {
      await cluster.set(first);
      let inner: Promise<Manifest> | undefined;
      const meta = () => {
        inner ??= cluster
          .chief({ incarnation: second })
          .save(cluster.request(first))
          .then((outcome) => outcome!.manifest);
        return Buffer.from('a graph');
      };
      const outcome = await cluster.chief({ incarnation: first }).save(cluster.request(first, { meta }));
      const other = await inner;
      const attempts = (await expectComplete()).map(({ attempt }) => attempt);
      expect(attempts).toContain(outcome!.manifest.attempt);
      expect(attempts).toContain(other!.attempt);
    }
  });
});
