/** Saves that go wrong, and chiefs that get in each other's way: what is committed is whole, the rest is not to be seen. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Manifest } from '../../src/checkpoint/manifest.js';
import { fileBlob, stampOf } from '../../src/checkpoint/names.js';
import type { SaveRequest } from '../../src/checkpoint/save.js';
import { ShoalError } from '../../src/errors/errors.js';
import { Crew, Training } from './crew.js';

let crew: Crew;
beforeEach(() => {
  crew = new Crew();
});
afterEach(() => crew[Symbol.asyncDispose]());

const steps = (manifests: readonly Manifest[]) => manifests.map(({ step }) => step);

/** Every checkpoint that is listed, restored: each must be whole and of the step that it says. */
async function expectWhole(): Promise<readonly Manifest[]> {
  const chief = crew.chief();
  const manifests = await chief.list();
  for (const manifest of manifests) {
    await crew.set(777_777);
    await chief.restore(manifest, { variables: crew.variables });
    expect(await crew.step()).toBe(manifest.step);
  }
  return manifests;
}

const ofStep = async (step: number) =>
  (await crew.blobs()).filter((name) => name.includes(`model.ckpt-${step}@`));

describe('a disk without room', () => {
  const cases: Record<string, { readonly place: string; readonly blob: RegExp }> = {
    "a ps's own, for its data": { place: 'ps/1', blob: /\.data-00001/ },
    "the chief's, for the index": { place: 'chief/0', blob: /\.index$/ },
    "the chief's, for the graph": { place: 'chief/0', blob: /\.meta$/ },
    "the chief's, for the manifest": { place: 'chief/0', blob: /manifests\// },
  };
  it.each(Object.keys(cases))(
    '%s: the save fails loudly and is not to be seen; the next one succeeds',
    async (which) => {
      const { place, blob } = cases[which]!;
      const chief = crew.chief();
      await crew.save(chief, 1);
      const disk = crew.disks.at(place);
      disk.isFull = (name) => blob.test(name);
      await expect(crew.save(chief, 2)).rejects.toMatchObject({ code: 'SHOAL_NO_SPACE' });
      expect(crew.log.join('\n')).toMatch(/saving a checkpoint failed: .*no room/);
      expect(steps(await expectWhole())).toEqual([1]);
      disk.isFull = () => false;
      await crew.save(chief, 3);
      expect(steps(await expectWhole())).toEqual([3, 1]);
      expect(await ofStep(2)).toEqual([]);
    },
  );

  it("another task's: a copy is put elsewhere, and the save succeeds", async () => {
    const before = await crew.save(crew.chief(), 1);
    const [own, other] = before.files[0]!.places as [string, string];
    crew.disks.at(other).isFull = (name) => name.includes('.data-00000');
    const manifest = await crew.save(crew.chief(), 2);
    expect(manifest.files[0]!.places.length).toBe(2);
    expect(manifest.files[0]!.places).toContain(own);
    expect(manifest.files[0]!.places).not.toContain(other);
    expect(steps(await expectWhole())).toEqual([2, 1]);
  });

  it('for a while: the save is tried again by itself', async () => {
    const chief = crew.chief({ attempts: 3 });
    let times = 0;
    crew.disks.at('ps/0').isFull = (name) => name.includes('.data-') && ++times <= 1;
    await crew.save(chief, 4);
    expect(crew.log.join('\n')).toContain('trying again');
    expect(steps(await expectWhole())).toEqual([4]);
    const attempts = new Set((await crew.blobs()).map((name) => /@([^/]+)/.exec(name)?.[1]).filter(Boolean));
    expect(attempts.size).toBe(1);
  });
});

describe('a disk that gives back other bytes than it was given', () => {
  it.each(['ps/0', 'ps/1'])('at %s: the save fails, and nothing of it is to be seen', async (place) => {
    const chief = crew.chief();
    await crew.save(chief, 1);
    crew.disks.at(place).rots = (name) => name.includes('.data-');
    await expect(crew.save(chief, 2)).rejects.toMatchObject({ code: 'SHOAL_CORRUPT' });
    crew.disks.at(place).rots = () => false;
    expect(steps(await expectWhole())).toEqual([1]);
    expect(await ofStep(2)).toEqual([]);
  });
});

describe('a task that goes', () => {
  it('with the only copy of what it wrote, before the manifest: nothing is committed', async () => {
    await crew[Symbol.asyncDispose]();
    crew = new Crew(0);
    const chief = crew.chief();
    await crew.save(chief, 1);
    const meta = () => {
      crew.disks.at('ps/0').isAway = true;
      return Buffer.from('a graph');
    };
    await expect(crew.save(chief, 2, { meta })).rejects.toMatchObject({ code: 'SHOAL_UNREACHABLE' });
    crew.disks.at('ps/0').isAway = false;
    expect(steps(await expectWhole())).toEqual([1]);
    await crew.save(chief, 3);
    expect(await ofStep(2)).toEqual([]);
  });

  it('having written, with a copy elsewhere: the checkpoint is committed', async () => {
    const chief = crew.chief();
    const meta = () => {
      crew.disks.at('ps/0').isAway = true;
      return Buffer.from('a graph');
    };
    await crew.save(chief, 2, { meta });
    crew.disks.at('ps/0').isAway = false;
    expect(steps(await expectWhole())).toEqual([2]);
  });

  it('with data of the newest checkpoint: no older one is removed for its sake', async () => {
    await crew[Symbol.asyncDispose]();
    crew = new Crew(0);
    const chief = crew.chief({ retention: { keep: 1 } });
    await crew.save(chief, 1);
    // Its manifest is there by then, its data not any more.
    const disk = crew.disks.at('chief/0');
    disk.onWritten = (name) => {
      if (name.includes('manifests/')) crew.disks.at('ps/0').isAway = true;
    };
    await crew.save(chief, 2);
    disk.onWritten = undefined;
    crew.disks.at('ps/0').isAway = false;
    expect(steps(await expectWhole())).toEqual([2, 1]);
    await crew.save(chief, 3);
    expect(steps(await expectWhole())).toEqual([3]);
  });
});

it('a worker that is lost before it is told to go on is spoken of, and neither the save nor the chief ends', async () => {
  const parking = {
    workers: () => ['worker/0'],
    park: async () => {},
    resume: () => Promise.reject(new ShoalError('SHOAL_UNREACHABLE', 'worker/0 refuses connections')),
  };
  const chief = crew.chief({ parking });
  // The data takes its time: nobody waits for the worker meanwhile.
  crew.disks.at('ps/0').isFull = () => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
    return false;
  };
  await crew.save(chief, 1, { consistency: 'consistent' });
  expect(crew.log).toEqual(['worker/0 could not be told to go on: worker/0 refuses connections']);
  expect(steps(await expectWhole())).toEqual([1]);
});

describe('two chiefs at once', () => {
  /** Two saves under way at the same time, while all values change between steps. */
  async function race(delayMs: number): Promise<void> {
    const training = new Training(crew);
    const request = (): Partial<SaveRequest> => ({
      consistency: 'consistent',
      step: async () => training.step,
    });
    const chiefs = [1, 2].map((incarnation) =>
      crew.chief({ incarnation, parking: training.parking(), attempts: 5 }),
    );
    const outcomes = await Promise.allSettled(
      chiefs.map(async (chief, i) => {
        await new Promise((resolve) => setTimeout(resolve, i * delayMs));
        return (await chief.save(crew.request(0, request())))!.manifest;
      }),
    );
    await training.end();
    const manifests = await expectWhole();
    for (const outcome of outcomes) {
      if (outcome.status === 'fulfilled') {
        expect(manifests.map(({ attempt }) => attempt)).toContain(outcome.value.attempt);
      }
    }
    expect(manifests.length).toBeGreaterThanOrEqual(1);
  }

  it.each([0, 1, 3, 10, 20, 30, 40, 60, 90, 150])(
    'the second %i ms later: what either has committed is whole, and nothing is a mixture',
    async (delayMs) => {
      await race(delayMs);
    },
  );

  it('with one step and one sequence: each is whole, and the later life counts as the newer', async () => {
    const [older, newer] = [crew.chief({ incarnation: 5 }), crew.chief({ incarnation: 6 })];
    await crew.set(4);
    // The other begins when the one has taken its sequence and written its data.
    let other: Promise<Manifest> | undefined;
    const first = await newer.save(
      crew.request(4, {
        meta: () => {
          other = older.save(crew.request(4)).then((outcome) => outcome!.manifest);
          return Buffer.from('a graph');
        },
      }),
    );
    const second = await other!;
    const manifests = await expectWhole();
    expect(manifests.map(({ sequence }) => sequence)).toEqual([1, 1]);
    expect(manifests.map(({ attempt }) => attempt)).toEqual([first!.manifest.attempt, second.attempt]);
  });

  /** A store without agents, where nobody can refuse a chief that was replaced. */
  describe('of which the one was replaced', () => {
    it('right before its manifest, after failed saves: the newest is whole, and of the successor', async () => {
      await crew.save(crew.chief({ incarnation: 4 }), 1);
      let isReplaced = false;
      const older = crew.chief({
        incarnation: 5,
        attempts: 3,
        confirmChief: async () => {
          if (isReplaced) return;
          isReplaced = true;
          await crew.save(crew.chief({ incarnation: 6 }), 3);
        },
      });
      let times = 0;
      crew.disks.at('chief/0').isFull = (name) => name.endsWith('.index') && ++times <= 2;
      await crew.save(older, 2);
      // Nobody could refuse the manifest, and the successor has swept what it names.
      expect(steps(await older.list())).toEqual([3, 2, 1]);
      const [newest] = await older.list();
      await crew.set(777);
      await crew.chief().restore(newest!, { variables: crew.variables });
      expect(await crew.step()).toBe(3);
    });

    it('and had files out of reach of the successor: these stay until its manifest would not be the newest', async () => {
      const blob = fileBlob(
        'job',
        { prefix: 'model.ckpt-9', attempt: '5-8-aaaaaaaaaaaa' },
        'model.ckpt-9.data-00000-of-00002',
      );
      await crew.disks.put('worker/0', blob, Buffer.from('a shard'));
      const worker = crew.disks.at('worker/0');
      worker.isAway = true;
      const successor = crew.chief({ incarnation: 6 });
      // It comes back between the choice of the sequence and the sweep.
      const meta = () => {
        worker.isAway = false;
        return Buffer.from('a graph');
      };
      expect((await crew.save(successor, 1, { meta })).sequence).toBe(1);
      expect(await crew.blobs()).toContain(blob);
      expect((await crew.save(crew.chief({ incarnation: 7 }), 2)).sequence).toBe(9);
      expect(await crew.blobs()).not.toContain(blob);
    });

    it('publishes and removes nothing when somebody knows of it', async () => {
      const replaced = new ShoalError('SHOAL_FORBIDDEN', 'this chief has been replaced');
      let isReplaced = false;
      const confirmChief = async () => {
        if (isReplaced) throw replaced;
      };
      const older = crew.chief({ incarnation: 5, retention: { keep: 1 }, confirmChief });
      await crew.save(older, 1);
      isReplaced = true;
      await expect(crew.save(older, 2)).rejects.toBe(replaced);
      await crew.save(crew.chief({ incarnation: 6 }), 3);
      await crew.chief({ incarnation: 5, retention: { keep: 1 }, confirmChief }).tidy();
      expect(steps(await expectWhole())).toEqual([3, 1]);
    });
  });

  it('neither sweeps what the other is writing', async () => {
    for (const [first, second] of [
      [5, 6],
      [6, 5],
    ] as const) {
      await crew.set(first);
      let inner: Promise<Manifest> | undefined;
      const meta = () => {
        inner ??= crew
          .chief({ incarnation: second })
          .save(crew.request(first))
          .then((outcome) => outcome!.manifest);
        return Buffer.from('a graph');
      };
      const outcome = await crew.chief({ incarnation: first }).save(crew.request(first, { meta }));
      const other = await inner;
      const attempts = (await expectWhole()).map(({ attempt }) => attempt);
      expect(attempts).toContain(outcome!.manifest.attempt);
      expect(attempts).toContain(other!.attempt);
    }
  });
});

describe('what unfinished saves have left', () => {
  const leave = async (attempt: string) => {
    const name = fileBlob('job', { prefix: 'model.ckpt-9', attempt }, 'model.ckpt-9.data-00000-of-00002');
    await crew.disks.put('ps/0', name, Buffer.from('a shard'));
    return name;
  };

  it('is removed after the next save when its chief is of an earlier life, or it was this one itself', async () => {
    const dead = [await leave('1-7-aaaaaaaaaaaa'), await leave('3-0-bbbbbbbbbbbb')];
    const alive = [
      await leave('3-99-cccccccccccc'),
      await leave('4-1-dddddddddddd'),
      await leave('eeeeeeeeeeee'),
    ];
    await crew.save(crew.chief({ incarnation: 3 }), 1);
    const names = await crew.blobs();
    for (const name of dead) expect(names).not.toContain(name);
    for (const name of alive) expect(names).toContain(name);
    expect(crew.log.join('\n')).toContain('removed 2 files that unfinished saves had left');
  });

  it('does not take anything of a checkpoint with it, even one whose manifest is damaged', async () => {
    const first = await crew.save(crew.chief({ incarnation: 1 }), 1);
    const manifests = (await crew.blobs()).filter((name) => name.includes('manifests/'));
    for (const { place } of crew.disks.all)
      await crew.disks.put(place, manifests[0]!, Buffer.from('nonsense'));
    await crew.save(crew.chief({ incarnation: 2 }), 2);
    expect((await ofStep(1)).length).toBe(first.files.length);
  });

  it('is told by names that say whose it was', () => {
    expect(stampOf('12-34-0123456789ab')).toEqual({ incarnation: 12, sequence: 34 });
    expect(stampOf('0123456789ab')).toBeUndefined();
  });
});

describe('a save that is asked for while one runs', () => {
  it('waits for it, or is left out, as its caller likes', async () => {
    const chief = crew.chief();
    await crew.set(1);
    const first = chief.save(crew.request(1));
    const [queued, alsoQueued] = [chief.save(crew.request(2)), chief.save(crew.request(3), 'queue')];
    expect(await chief.save(crew.request(4), 'skip')).toBeUndefined();
    const sequences = (await Promise.all([first, queued, alsoQueued])).map(
      (outcome) => outcome!.manifest.sequence,
    );
    expect(sequences).toEqual([1, 2, 3]);
    expect((await chief.save(crew.request(5), 'skip'))!.manifest.step).toBe(5);
  });

  it('does not wait for ever when that one fails', async () => {
    const chief = crew.chief();
    await crew.set(1);
    crew.disks.at('ps/0').isFull = () => true;
    const saves = await Promise.allSettled([1, 2].map((step) => chief.save(crew.request(step))));
    for (const save of saves) expect(save).toMatchObject({ reason: { code: 'SHOAL_NO_SPACE' } });
    expect(chief.isSaving).toBe(false);
  });
});

describe('a save that is given up', () => {
  const request = (stop: AbortController, more: Partial<SaveRequest> = {}) =>
    crew.request(2, { signal: stop.signal, ...more });
  const cases: Record<string, (stop: AbortController) => Partial<SaveRequest>> = {
    'while the step is asked for': (stop) => ({
      step: async () => {
        stop.abort(new Error('Ctrl-C'));
        return 2;
      },
    }),
    'while data is written': (stop) => ({
      onProgress: () => stop.abort(new Error('Ctrl-C')),
    }),
    'while the index is written': (stop) => ({
      meta: () => {
        stop.abort(new Error('Ctrl-C'));
        return Buffer.from('a graph');
      },
    }),
  };

  it.each(Object.keys(cases))('%s leaves nothing behind, and the next one succeeds', async (when) => {
    const chief = crew.chief();
    await crew.save(chief, 1);
    await crew.set(2);
    const stop = new AbortController();
    await expect(chief.save(request(stop, cases[when]!(stop)))).rejects.toThrow();
    expect(steps(await expectWhole())).toEqual([1]);
    await crew.save(chief, 3);
    expect(steps(await expectWhole())).toEqual([3, 1]);
    expect(await ofStep(2)).toEqual([]);
  });

  it('keeps no snapshot', async () => {
    const stop = new AbortController();
    const [owner] = crew.owners;
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
  it('back: later saves stay the newer ones, and none of them is taken for old', async () => {
    const times = [9_000_000_000, 8_000_000_000, 0, 8_500_000_000, 1];
    let at = 0;
    const chief = crew.chief({ now: () => times[at]!, retention: { keep: 2, everyHours: 1 } });
    for (const step of [1, 2, 3, 4, 5]) {
      await crew.save(chief, step);
      at += 1;
      expect(steps(await chief.list())[0]).toBe(step);
      await crew.set(99);
      await chief.restoreNewest({ variables: crew.variables });
      expect(await crew.step()).toBe(step);
    }
    expect(steps(await chief.list()).slice(0, 2)).toEqual([5, 4]);
  });

  it('between two chiefs: the one whose clock is behind is the newer all the same', async () => {
    await crew.save(crew.chief({ now: () => 9_000_000_000_000, incarnation: 1 }), 100);
    await crew.save(crew.chief({ now: () => 5, incarnation: 2 }), 50);
    expect(steps(await expectWhole())).toEqual([50, 100]);
  });
});
