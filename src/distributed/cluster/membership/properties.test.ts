import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type TaskId, taskId } from '../spec/task-id.js';
import { isStill, World } from '../testing/membership-world.js';
import { type EntryMap, epochOf, type MapEntry, mapDigest, mergeMaps } from './map.js';
import { membershipSettings } from './settings.js';

const tasks: readonly TaskId[] = [taskId('ps', 0), taskId('ps', 1), taskId('worker', 0), taskId('worker', 1)];

const entry = (task: TaskId): fc.Arbitrary<MapEntry> =>
  fc.record({
    task: fc.constant(task),
    incarnation: fc.integer({ min: 5, max: 9 }),
    nonce: fc.constantFrom('a', 'b'),
    first: fc.integer({ min: 1, max: 5 }),
    agentAddress: fc.constantFrom('x:1', 'y:1'),
    serverAddress: fc.constantFrom('x:2', null),
    host: fc.constantFrom('x', 'y'),
    pid: fc.integer({ min: 1, max: 3 }),
    left: fc.boolean(),
    beat: fc.nat(3),
    step: fc.option(fc.nat(3)),
  });

const map: fc.Arbitrary<EntryMap> = fc
  .subarray([...tasks])
  .chain((some) => fc.tuple(...some.map(entry)))
  .map((entries) => new Map(entries.map((item) => [item.task, item])));

describe('merging maps', () => {
  it('is commutative', () => {
    fc.assert(
      fc.property(map, map, (a, b) => {
        expect(mergeMaps(a, b)).toEqual(mergeMaps(b, a));
      }),
    );
  });

  it('is associative', () => {
    fc.assert(
      fc.property(map, map, map, (a, b, c) => {
        expect(mergeMaps(mergeMaps(a, b), c)).toEqual(mergeMaps(a, mergeMaps(b, c)));
      }),
    );
  });

  it('is idempotent', () => {
    fc.assert(
      fc.property(map, map, (a, b) => {
        const merged = mergeMaps(a, b);
        expect(mergeMaps(merged, a)).toEqual(merged);
        expect(mergeMaps(a, a)).toEqual(a);
      }),
    );
  });

  it('never lowers the epoch', () => {
    fc.assert(
      fc.property(map, map, (a, b) => {
        const merged = epochOf(mergeMaps(a, b).values());
        expect(merged).toBeGreaterThanOrEqual(Math.max(epochOf(a.values()), epochOf(b.values())));
      }),
    );
  });

  it('changes the digest if and only if it adds an incarnation', () => {
    const identities = (entries: EntryMap) =>
      [...entries.values()].map(({ task, incarnation, nonce, first, left }) => [
        task,
        incarnation,
        nonce,
        first,
        left,
      ]);
    fc.assert(
      fc.property(map, map, (a, b) => {
        const merged = mergeMaps(a, b);
        const same = JSON.stringify(identities(merged)) === JSON.stringify(identities(a));
        expect(mapDigest(merged.values()) === mapDigest(a.values())).toBe(same);
      }),
    );
  });
});

/** Each run simulates minutes of a cluster; SHOAL_LONG_TESTS adds runs. */
const RUNS = process.env.SHOAL_LONG_TESTS ? 1000 : 40;

/** Faults and changes in a cluster of two ps and two workers. */
const happening = fc.oneof(
  fc.record({
    what: fc.constantFrom('kill', 'freeze', 'block', 'thaw', 'replace', 'twin'),
    whom: fc.nat(3),
    ms: fc.nat(15_000),
  }),
  fc.record({ what: fc.constantFrom('partition', 'heal', 'wait'), whom: fc.nat(15), ms: fc.nat(15_000) }),
);

function live(
  delays: readonly number[],
  happenings: readonly { what: string; whom: number; ms: number }[],
  whole = true,
) {
  const contacts = tasks.map((task, i) => ({ task, address: `h${i}:1` }));
  const settings = membershipSettings();
  const epochs = new Map<string, number>();
  let drawn = 0;
  const world: World = new World({
    contacts,
    chief: tasks[2],
    settings,
    delay: () => delays[drawn++ % delays.length]!,
    onEffect: ({ label }, effect) => {
      if (effect.type !== 'epoch') return;
      expect(effect.epoch).toBeGreaterThan(epochs.get(label) ?? 0);
      epochs.set(label, effect.epoch);
    },
  });
  for (const task of tasks) world.start(task);
  const latest = (whom: number) => world.processes.findLast(({ task }) => task === tasks[whom % 4])!;
  let spare = 0;
  for (const { what, whom, ms } of happenings) {
    const process = latest(whom);
    if (what === 'kill' && process.condition !== 'gone') world.kill(process);
    if (what === 'freeze' && process.condition === 'running') world.freeze(process);
    if (what === 'block' && process.condition === 'running') world.block(process);
    if (what === 'thaw' && isStill(process)) world.thaw(process);
    if (what === 'partition') world.partition(process.address, latest(whom >> 2).address);
    if (what === 'heal') world.heal();
    if (what === 'twin') world.start(process.task, { address: `spare${spare++}:1`, clock: 90 + (ms % 20) });
    if (what === 'replace' && process.condition !== 'running') {
      world.start(process.task, { address: `spare${spare++}:1`, clock: 90 + (ms % 20) });
    }
    world.run(ms);
  }
  world.heal();
  for (const process of world.processes) if (isStill(process)) world.thaw(process);
  // Two processes of one task learn of each other only through other tasks: those come back.
  for (const task of tasks) {
    const isPresent = world.processes.some((other) => other.task === task && other.condition !== 'gone');
    if (!isPresent && whole) world.start(task);
  }
  world.run(30_000);
  return world.processes.filter(({ condition }) => condition === 'running');
}

const history = fc.tuple(
  fc.array(fc.integer({ min: 1, max: 900 }), { minLength: 1, maxLength: 30 }),
  fc.array(happening, { maxLength: 14 }),
);

describe('any history of a cluster, after the network has healed', { timeout: 600_000 }, () => {
  it('ends with one map and one epoch, whatever the order of delivery', () => {
    fc.assert(
      fc.property(history, ([delays, happenings]) => {
        const running = live(delays, happenings);
        expect(new Set(running.map(({ state }) => state.digest)).size).toBeLessThanOrEqual(1);
        expect(new Set(running.map(({ state }) => state.epoch)).size).toBeLessThanOrEqual(1);
      }),
      { numRuns: RUNS },
    );
  });

  it('leaves at most one process per task', () => {
    fc.assert(
      fc.property(history, ([delays, happenings]) => {
        const running = live(delays, happenings).map(({ task }) => task);
        expect(new Set(running).size).toBe(running.length);
      }),
      { numRuns: RUNS },
    );
  });

  it('leaves every task with the correct status of the others', () => {
    fc.assert(
      fc.property(history, ([delays, happenings]) => {
        const running = live(
          delays,
          happenings.filter(({ what }) => what !== 'twin'),
          false,
        );
        const alive = new Set(running.map(({ task }) => task));
        for (const { label, state } of running) {
          for (const { task, status } of state.members.values()) {
            expect(`${label} holds ${task} for ${status}`).toBe(
              `${label} holds ${task} for ${alive.has(task) ? 'alive' : 'dead'}`,
            );
          }
        }
      }),
      { numRuns: RUNS },
    );
  });
});
