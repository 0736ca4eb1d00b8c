/** Failing saves: a committed checkpoint is complete, and nothing else is visible. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ShoalError } from '../../src/base/errors/errors.js';
import type { Checkpoints } from '../../src/distributed/checkpoint/checkpoints.js';
import type { Manifest } from '../../src/distributed/checkpoint/format/manifest.js';
import { fileBlob, stampOf } from '../../src/distributed/checkpoint/format/names.js';
import type { SaveRequest } from '../../src/distributed/checkpoint/protocol/save.js';
import { completeCheckpoints } from './complete-checkpoints.js';
import { TestCluster } from './test-cluster.js';

let cluster: TestCluster;
beforeEach(() => {
  cluster = new TestCluster();
});
afterEach(() => cluster[Symbol.asyncDispose]());

const steps = (manifests: readonly Manifest[]) => manifests.map(({ step }) => step);

const expectComplete = () => completeCheckpoints(cluster);

const ofStep = async (step: number) =>
  (await cluster.blobs()).filter((name) => name.includes(`model.ckpt-${step}@`));

/** Damages the newest data file of the first shard below a directory. */
function flipByte(root: string): void {
  const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.includes('model.ckpt-2') && name.includes('.data-00000'),
  );
  for (const file of files) {
    const bytes = readFileSync(join(root, file));
    bytes[bytes.length >> 1]! ^= 1;
    writeFileSync(join(root, file), bytes);
  }
  expect(files).not.toHaveLength(0);
}

describe('a full disk', () => {
  const cases: Record<string, { readonly place: string; readonly blob: RegExp }> = {
    'of a ps, at its data': { place: 'ps/1', blob: /\.data-00001/ },
    'of the chief, at the index': { place: 'chief/0', blob: /\.index$/ },
    'of the chief, at the graph': { place: 'chief/0', blob: /\.meta$/ },
    'of the chief, at the manifest': { place: 'chief/0', blob: /manifests\// },
  };
  it.each(Object.keys(cases))(
    '%s: the save fails and is not visible; the next one succeeds',
    async (which) => {
      const { place, blob } = cases[which]!;
      const chief = cluster.chief();
      await cluster.save(chief, 1);
      const disk = cluster.disks.at(place);
      disk.isFull = (name) => blob.test(name);
      await expect(cluster.save(chief, 2)).rejects.toMatchObject({ code: 'SHOAL_NO_SPACE' });
      expect(cluster.log.join('\n')).toMatch(/saving a checkpoint failed: .*no room/);
      expect(steps(await expectComplete())).toEqual([1]);
      disk.isFull = () => false;
      await cluster.save(chief, 3);
      expect(steps(await expectComplete())).toEqual([3, 1]);
      expect(await ofStep(2)).toEqual([]);
    },
  );

  it('of another task: a copy goes elsewhere, and the save succeeds', async () => {
    const before = await cluster.save(cluster.chief(), 1);
    const [own, other] = before.files[0]!.places as [string, string];
    cluster.disks.at(other).isFull = (name) => name.includes('.data-00000');
    const manifest = await cluster.save(cluster.chief(), 2);
    expect(manifest.files[0]!.places.length).toBe(2);
    expect(manifest.files[0]!.places).toContain(own);
    expect(manifest.files[0]!.places).not.toContain(other);
    expect(steps(await expectComplete())).toEqual([2, 1]);
  });

  it('for a short time: the save is retried', async () => {
    const chief = cluster.chief({ attempts: 3 });
    let times = 0;
    cluster.disks.at('ps/0').isFull = (name) => name.includes('.data-') && ++times <= 1;
    await cluster.save(chief, 4);
    expect(cluster.log.join('\n')).toContain('retrying');
    expect(steps(await expectComplete())).toEqual([4]);
    const attempts = new Set(
      (await cluster.blobs()).map((name) => /@([^/]+)/.exec(name)?.[1]).filter(Boolean),
    );
    expect(attempts.size).toBe(1);
  });
});

describe('a disk that returns other bytes than were written', () => {
  it.each(['ps/0', 'ps/1'])('at %s: the save fails and leaves nothing visible', async (place) => {
    const chief = cluster.chief();
    await cluster.save(chief, 1);
    cluster.disks.at(place).rots = (name) => name.includes('.data-');
    await expect(cluster.save(chief, 2)).rejects.toMatchObject({ code: 'SHOAL_CORRUPT' });
    cluster.disks.at(place).rots = () => false;
    expect(steps(await expectComplete())).toEqual([1]);
    expect(await ofStep(2)).toEqual([]);
  });
});

describe('a task that goes offline', () => {
  it('with the only copy of its data, before the manifest: nothing is committed', async () => {
    await cluster[Symbol.asyncDispose]();
    cluster = new TestCluster(0);
    const chief = cluster.chief();
    await cluster.save(chief, 1);
    const meta = () => {
      cluster.disks.at('ps/0').isAway = true;
      return Buffer.from('a graph');
    };
    await expect(cluster.save(chief, 2, { meta })).rejects.toMatchObject({ code: 'SHOAL_UNREACHABLE' });
    cluster.disks.at('ps/0').isAway = false;
    expect(steps(await expectComplete())).toEqual([1]);
    await cluster.save(chief, 3);
    expect(await ofStep(2)).toEqual([]);
  });

  it('after its write, with a copy elsewhere: the checkpoint is committed', async () => {
    const chief = cluster.chief();
    const meta = () => {
      cluster.disks.at('ps/0').isAway = true;
      return Buffer.from('a graph');
    };
    await cluster.save(chief, 2, { meta });
    cluster.disks.at('ps/0').isAway = false;
    expect(steps(await expectComplete())).toEqual([2]);
  });

  /** The places of the first shard, and a graph whose encoding empties the disk that has its second copy. */
  async function losingTheCopy(chief: Checkpoints, more: () => void = () => {}) {
    const [owner, holder] = (await cluster.save(chief, 1)).files[0]!.places as [string, string];
    const meta = () => {
      rmSync(cluster.disks.at(holder).root, { recursive: true });
      more();
      return Buffer.from('a graph');
    };
    return { owner: cluster.disks.at(owner), holder: cluster.disks.at(holder), meta };
  }
  const isData = (name: string) => name.includes('.data-00000');
  const copiesOf = ({ prefix, attempt, files }: Manifest) =>
    cluster.disks.store('chief/0').locate(fileBlob('job', { prefix, attempt }, files[0]!.file));

  it('after it took a copy, and returns with an empty disk: there is another copy when the save ends', async () => {
    const chief = cluster.chief();
    const { owner, meta } = await losingTheCopy(chief);
    const manifest = await cluster.save(chief, 2, { meta });
    expect(await copiesOf(manifest)).toHaveLength(2);
    expect(cluster.log.join('\n')).toMatch(/was copied to \S+: the copy of \S+ is lost/);
    expect(await chief.list().then(steps)).toEqual([2, 1]);
    owner.isAway = true;
    await cluster.set(777_777);
    await chief.restore(manifest, { variables: cluster.variables });
    expect(await cluster.step()).toBe(2);
    owner.isAway = false;
  });

  it('after it took a copy, and no other task has room for one: the save says that a copy is missing', async () => {
    const chief = cluster.chief();
    const { owner, meta } = await losingTheCopy(chief, () => {
      for (const disk of cluster.disks.all) disk.isFull = isData;
    });
    await cluster.set(2);
    const outcome = await chief.save(cluster.request(2, { meta }));
    expect(outcome!.shortfall).toBe(1);
    expect(await copiesOf(outcome!.manifest)).toEqual([owner.place]);
    expect(outcome!.manifest.replicas).toBe(1);
    expect(steps(await expectComplete())).toEqual([2, 1]);
  });

  it('after it took a copy, and the other one is damaged: no older checkpoint is removed', async () => {
    const chief = cluster.chief({ retention: { keep: 1 } });
    const { owner, meta } = await losingTheCopy(chief, () => flipByte(owner.root));
    await cluster.set(2);
    const outcome = await chief.save(cluster.request(2, { meta }));
    expect(outcome!.shortfall).toBe(2);
    expect(cluster.log.join('\n')).toContain(`.data-00000-of-00002 is damaged at ${owner.place}`);
    expect(await chief.list().then(steps)).toEqual([2, 1]);
  });

  it('after it took a copy, and the other one is lost when it is read: no older checkpoint is removed', async () => {
    const chief = cluster.chief({ retention: { keep: 1 } });
    const { owner, meta } = await losingTheCopy(chief, () => {
      owner.onRead = () => {
        owner.isAway = true;
      };
    });
    await cluster.save(chief, 2, { meta });
    expect(await chief.list().then(steps)).toEqual([2, 1]);
  });

  it('after it took a copy, and no byte of the other one arrives: the save ends in time', async () => {
    const chief = cluster.chief({ copiesMs: 500 });
    const { owner, meta } = await losingTheCopy(chief, () => {
      owner.onRead = () => new Promise(() => {});
    });
    await cluster.set(2);
    const outcome = await chief.save(cluster.request(2, { meta }));
    expect(outcome!.shortfall).toBe(1);
    expect(cluster.log.join('\n')).toMatch(/lost copies could not be made again in 0\.5 s/);
    owner.onRead = undefined;
    expect(steps(await expectComplete())).toEqual([2, 1]);
  });

  it('after it took a copy, and the save is stopped meanwhile: the checkpoint is there', async () => {
    const chief = cluster.chief();
    const stop = new AbortController();
    const { owner, meta } = await losingTheCopy(chief, () => {
      owner.onRead = () => stop.abort();
    });
    await cluster.save(chief, 2, { meta, signal: stop.signal });
    owner.onRead = undefined;
    expect(cluster.log.join('\n')).not.toMatch(/cleanup|could not be copied/);
    expect(steps(await expectComplete())).toEqual([2, 1]);
  });

  it('and answers late: nothing is copied', async () => {
    const chief = cluster.chief();
    const [, holder] = (await cluster.save(chief, 1)).files[0]!.places as [string, string];
    // It does not answer the question to all tasks, but one that waits longer.
    const disk = cluster.disks.at(holder);
    disk.answersMs = 6000;
    const manifest = await cluster.save(chief, 2);
    disk.answersMs = 0;
    expect(cluster.log.join('\n')).not.toMatch(/was copied/);
    expect(await copiesOf(manifest)).toHaveLength(2);
  });

  it('with data of the newest checkpoint: no older checkpoint is removed', async () => {
    await cluster[Symbol.asyncDispose]();
    cluster = new TestCluster(0);
    const chief = cluster.chief({ retention: { keep: 1 } });
    await cluster.save(chief, 1);
    // By then its manifest exists, but its data is unreachable.
    const disk = cluster.disks.at('chief/0');
    disk.onWritten = (name) => {
      if (name.includes('manifests/')) cluster.disks.at('ps/0').isAway = true;
    };
    await cluster.save(chief, 2);
    disk.onWritten = undefined;
    cluster.disks.at('ps/0').isAway = false;
    expect(steps(await expectComplete())).toEqual([2, 1]);
    await cluster.save(chief, 3);
    expect(steps(await expectComplete())).toEqual([3]);
  });
});

it('a worker that is lost before it is resumed is logged, and neither the save nor the chief ends', async () => {
  const pauseControl = {
    workers: () => ['worker/0'],
    pause: async () => {},
    resume: () => Promise.reject(new ShoalError('SHOAL_UNREACHABLE', 'worker/0 refuses connections')),
  };
  const chief = cluster.chief({ pauseControl });
  // The slow write shows that the save does not wait for the worker.
  cluster.disks.at('ps/0').isFull = () => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
    return false;
  };
  await cluster.save(chief, 1, { consistency: 'consistent' });
  expect(cluster.log).toEqual(['worker/0 could not be resumed: worker/0 refuses connections']);
  expect(steps(await expectComplete())).toEqual([1]);
});

it('a save that is aborted while it reads the step to pause at pauses no worker', async () => {
  const stop = new AbortController();
  let step = (_: number) => {};
  const atStep = new Promise<number>((resolve) => {
    step = resolve;
  });
  const paused: string[] = [];
  const chief = cluster.chief({
    pauseControl: {
      workers: () => ['worker/0'],
      atStep: () => {
        stop.abort(new ShoalError('SHOAL_ABORTED', 'the cluster is being recovered'));
        return atStep;
      },
      pause: async (worker) => void paused.push(worker),
      resume: async () => {},
    },
  });
  const request = cluster.request(1, { consistency: 'consistent', signal: stop.signal });
  await expect(chief.save(request)).rejects.toMatchObject({ code: 'SHOAL_ABORTED' });
  step(3);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(paused).toEqual([]);
});

describe('files of unfinished saves', () => {
  const leave = async (attempt: string) => {
    const name = fileBlob('job', { prefix: 'model.ckpt-9', attempt }, 'model.ckpt-9.data-00000-of-00002');
    await cluster.disks.put('ps/0', name, Buffer.from('a shard'));
    return name;
  };

  it('are removed after the next save when they are of an earlier incarnation or of this chief', async () => {
    const dead = [await leave('1-7-aaaaaaaaaaaa'), await leave('3-0-bbbbbbbbbbbb')];
    const alive = [
      await leave('3-99-cccccccccccc'),
      await leave('4-1-dddddddddddd'),
      await leave('eeeeeeeeeeee'),
    ];
    await cluster.save(cluster.chief({ incarnation: 3 }), 1);
    const names = await cluster.blobs();
    for (const name of dead) expect(names).not.toContain(name);
    for (const name of alive) expect(names).toContain(name);
    expect(cluster.log.join('\n')).toContain('removed 2 files left by unfinished saves');
  });

  it('do not include files of a checkpoint, even one whose manifest is damaged', async () => {
    const first = await cluster.save(cluster.chief({ incarnation: 1 }), 1);
    const manifests = (await cluster.blobs()).filter((name) => name.includes('manifests/'));
    for (const { place } of cluster.disks.all)
      await cluster.disks.put(place, manifests[0]!, Buffer.from('nonsense'));
    await cluster.save(cluster.chief({ incarnation: 2 }), 2);
    expect((await ofStep(1)).length).toBe(first.files.length);
  });

  it('have names that contain the incarnation and the sequence', () => {
    expect(stampOf('12-34-0123456789ab')).toEqual({ incarnation: 12, sequence: 34 });
    expect(stampOf('0123456789ab')).toBeUndefined();
  });
});

describe('a save that is requested while one runs', () => {
  it('is queued or skipped, as its caller requests', async () => {
    const chief = cluster.chief();
    await cluster.set(1);
    const first = chief.save(cluster.request(1));
    const [queued, alsoQueued] = [chief.save(cluster.request(2)), chief.save(cluster.request(3), 'queue')];
    expect(await chief.save(cluster.request(4), 'skip')).toBeUndefined();
    const sequences = (await Promise.all([first, queued, alsoQueued])).map(
      (outcome) => outcome!.manifest.sequence,
    );
    expect(sequences).toEqual([1, 2, 3]);
    expect((await chief.save(cluster.request(5), 'skip'))!.manifest.step).toBe(5);
  });

  it('does not hang when that one fails', async () => {
    const chief = cluster.chief();
    await cluster.set(1);
    cluster.disks.at('ps/0').isFull = () => true;
    const saves = await Promise.allSettled([1, 2].map((step) => chief.save(cluster.request(step))));
    for (const save of saves) expect(save).toMatchObject({ reason: { code: 'SHOAL_NO_SPACE' } });
    expect(chief.isSaving).toBe(false);
  });
});

describe('a save that is aborted', () => {
  const request = (stop: AbortController, more: Partial<SaveRequest> = {}) =>
    cluster.request(2, { signal: stop.signal, ...more });
  const cases: Record<string, (stop: AbortController) => Partial<SaveRequest>> = {
    'while it reads the step': (stop) => ({
      step: async () => {
        stop.abort(new Error('Ctrl-C'));
        return { step: 2 };
      },
    }),
    'while it writes data': (stop) => ({
      onProgress: () => stop.abort(new Error('Ctrl-C')),
    }),
    'while it writes the index': (stop) => ({
      meta: () => {
        stop.abort(new Error('Ctrl-C'));
        return Buffer.from('a graph');
      },
    }),
  };

  it.each(Object.keys(cases))('%s leaves nothing behind, and the next one succeeds', async (when) => {
    const chief = cluster.chief();
    await cluster.save(chief, 1);
    await cluster.set(2);
    const stop = new AbortController();
    await expect(chief.save(request(stop, cases[when]!(stop)))).rejects.toThrow();
    expect(steps(await expectComplete())).toEqual([1]);
    await cluster.save(chief, 3);
    expect(steps(await expectComplete())).toEqual([3, 1]);
    expect(await ofStep(2)).toEqual([]);
  });

  it('keeps no snapshot', async () => {
    const stop = new AbortController();
    const [owner] = cluster.owners;
    const taken = owner!.service.snapshot(
      { attempt: 'aaaa', variables: [...owner!.saved] },
      { signal: stop.signal },
    );
    stop.abort(new Error('Ctrl-C'));
    await expect(taken).rejects.toThrow();
    const write = { attempt: 'aaaa', prefix: 'm-1', namespace: 'job', store: 'peers:', shard: 0, shards: 1 };
    await expect(owner!.service.write(write)).rejects.toMatchObject({ code: 'SHOAL_NOT_FOUND' });
  });
});

describe('a clock that jumps', () => {
  it('backwards: later saves stay the newer ones, and none is treated as old', async () => {
    const times = [9_000_000_000, 8_000_000_000, 0, 8_500_000_000, 1];
    let at = 0;
    const chief = cluster.chief({ now: () => times[at]!, retention: { keep: 2, everyHours: 1 } });
    for (const step of [1, 2, 3, 4, 5]) {
      await cluster.save(chief, step);
      at += 1;
      expect(steps(await chief.list())[0]).toBe(step);
      await cluster.set(99);
      await chief.restoreNewest({ variables: cluster.variables });
      expect(await cluster.step()).toBe(step);
    }
    expect(steps(await chief.list()).slice(0, 2)).toEqual([5, 4]);
  });

  it('between two chiefs: the successor is the newer although its clock is behind', async () => {
    await cluster.save(cluster.chief({ now: () => 9_000_000_000_000, incarnation: 1 }), 100);
    await cluster.save(cluster.chief({ now: () => 5, incarnation: 2 }), 50);
    expect(steps(await expectComplete())).toEqual([50, 100]);
  });
});
