import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { play } from '../testing/commit-transcript.js';
import { beginCommit, type Commit, type CommitEffect, type CommitEvent, reduceCommit } from './commit.js';

const folder = fileURLToPath(new URL('../testing/transcripts/', import.meta.url));

describe('commit transcripts', () => {
  it.each(readdirSync(folder))('%s', async (name) => {
    await expect(play(readFileSync(folder + name, 'utf8'))).toMatchFileSnapshot(folder + name);
  });
});

type Event = CommitEvent<string>;

const OWNERS = ['ps0', 'ps1', 'chief'];
const WORKERS = ['chief', 'worker0', 'worker1'];
const anyTask = fc.constantFrom(...OWNERS, ...WORKERS, 'stranger');

const anyEvent: fc.Arbitrary<Event> = fc.oneof(
  // Answers are frequent, so that runs make progress; they need not be expected.
  { weight: 8, arbitrary: anyTask.map((worker): Event => ({ type: 'paused', worker })) },
  { weight: 8, arbitrary: anyTask.map((owner): Event => ({ type: 'snapshotted', owner })) },
  { weight: 8, arbitrary: anyTask.map((owner): Event => ({ type: 'written', owner, shard: owner })) },
  { weight: 3, arbitrary: fc.constant<Event>({ type: 'indexed' }) },
  { weight: 3, arbitrary: fc.constant<Event>({ type: 'published' }) },
  { weight: 1, arbitrary: anyTask.map((task): Event => ({ type: 'lost', task })) },
  { weight: 1, arbitrary: anyTask.map((task): Event => ({ type: 'joined', task })) },
  { weight: 1, arbitrary: fc.constant<Event>({ type: 'failed', error: 'a failure' }) },
);

const aSave = fc.record({
  owners: fc.subarray(OWNERS, { minLength: 1 }),
  workers: fc.subarray(WORKERS),
  events: fc.array(anyEvent, { maxLength: 60 }),
});

interface CommitRun {
  readonly states: readonly Commit<string>[];
  readonly effects: readonly CommitEffect<string>[];
  readonly final: Commit<string>;
}

/** The event that the phase waits for if no task fails. */
function answer({ phase, waiting: [next = ''] }: Commit<string>): Event {
  if (phase === 'pausing') return { type: 'paused', worker: next };
  if (phase === 'snapshot') return { type: 'snapshotted', owner: next };
  if (phase === 'writing') return { type: 'written', owner: next, shard: next };
  return { type: phase === 'index' ? 'indexed' : 'published' };
}

const hasEnded = ({ phase }: Commit<string>) => phase === 'committed' || phase === 'failed';

/** Applies the given events, then the expected answers. */
function simulate(
  owners: readonly string[],
  workers: readonly string[],
  events: readonly Event[],
): CommitRun {
  const first = beginCommit<string>(owners, workers);
  const states = [first.state];
  const effects = [...first.effects];
  const step = (event: Event) => {
    const next = reduceCommit(states[states.length - 1]!, event);
    states.push(next.state);
    effects.push(...next.effects);
  };
  for (const event of events) step(event);
  for (let i = 0; i < 100 && !hasEnded(states[states.length - 1]!); i++)
    step(answer(states[states.length - 1]!));
  return { states, effects, final: states[states.length - 1]! };
}

const holds = (predicate: (run: CommitRun, owners: readonly string[], workers: readonly string[]) => void) =>
  fc.assert(
    fc.property(aSave, ({ owners, workers, events }) =>
      predicate(simulate(owners, workers, events), owners, workers),
    ),
    { numRuns: 2000 },
  );

const positions = (effects: readonly CommitEffect<string>[], type: CommitEffect<string>['type']) =>
  effects.flatMap((effect, at) => (effect.type === type ? [at] : []));

describe('for any sequence of events, a commit', () => {
  it('ends committed or failed, and stays so', () => {
    holds(({ states, final }) => {
      expect(['committed', 'failed']).toContain(final.phase);
      const end = states.findIndex(hasEnded);
      for (const state of states.slice(end)) expect(state).toBe(states[end]);
    });
  });

  it('resumes every paused worker exactly once, except lost ones', () => {
    holds(({ effects, final }, _, workers) => {
      const resumed = effects.flatMap((effect) => (effect.type === 'resume' ? effect.workers : []));
      for (const worker of workers) {
        const times = resumed.filter((name) => name === worker).length;
        expect(times).toBeLessThanOrEqual(1);
        if (final.workers.includes(worker)) expect(times).toBe(1);
      }
      expect(resumed.filter((name) => !workers.includes(name))).toEqual([]);
    });
  });

  it('takes no snapshot before all workers are paused, and resumes none before all snapshots are taken', () => {
    holds(({ states, effects, final }, owners) => {
      const [snapshot] = positions(effects, 'snapshot');
      const [resume] = positions(effects, 'resume');
      const [write] = positions(effects, 'write');
      if (snapshot !== undefined) expect(states.some(({ phase }) => phase === 'snapshot')).toBe(true);
      if (resume !== undefined && final.phase === 'committed') {
        expect(snapshot).toBeLessThan(resume);
        expect(resume).toBeLessThan(write!);
      }
      for (const { phase, waiting } of states) {
        if (phase === 'pausing') expect(waiting.length).toBeGreaterThan(0);
        if (phase === 'snapshot') expect(owners).toEqual(expect.arrayContaining([...waiting]));
      }
    });
  });

  it('writes the manifest only after all shards and the index are written', () => {
    holds(({ states, effects, final }, owners) => {
      const manifests = positions(effects, 'write-manifest');
      const indexes = positions(effects, 'write-index');
      expect(manifests.length).toBeLessThanOrEqual(1);
      expect(indexes.length).toBeLessThanOrEqual(1);
      for (const at of manifests) expect(indexes[0]).toBeLessThan(at);
      for (const at of indexes) {
        const effect = effects[at] as CommitEffect<string> & { type: 'write-index' };
        expect(effect.shards).toEqual(owners);
      }
      for (const { phase, shards } of states) {
        if (phase === 'index' || phase === 'manifest' || phase === 'committed')
          expect(shards.size).toBe(owners.length);
      }
      if (final.phase === 'committed') expect(manifests.length).toBe(1);
    });
  });

  it('removes no files once a manifest may exist', () => {
    holds(({ effects, final }) => {
      const discards = positions(effects, 'discard');
      if (positions(effects, 'write-manifest').length > 0) expect(discards).toEqual([]);
      if (final.phase === 'committed') expect(discards).toEqual([]);
    });
  });

  it('removes the written files when it fails before that', () => {
    holds(({ effects, final }) => {
      const wrote = positions(effects, 'write').length > 0;
      const hasManifest = positions(effects, 'write-manifest').length > 0;
      if (final.phase === 'failed' && wrote && !hasManifest) {
        expect(positions(effects, 'discard').length).toBe(1);
        expect(positions(effects, 'drop').length).toBe(1);
      }
    });
  });

  it('succeeds if no task fails', () => {
    fc.assert(
      fc.property(aSave, ({ owners, workers }) => {
        expect(simulate(owners, workers, []).final.phase).toBe('committed');
      }),
    );
  });
});
