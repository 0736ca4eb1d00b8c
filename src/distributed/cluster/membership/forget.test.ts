import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type TaskId, taskId } from '../spec/task-id.js';
import { isStill, type Process, World } from '../testing/membership-world.js';
import { MOST_REMEMBERED, MOST_REPORTED } from './forget.js';
import { mapDigest } from './map.js';
import { initialState, messageTo, reduceMembership } from './membership.js';
import { membershipSettings } from './settings.js';
import type { Effect, Member } from './types.js';

const RUNS = process.env.SHOAL_LONG_TESTS ? 1000 : 15;
const FORGET_MS = 100_000;
const settings = membershipSettings({ forgetAfterMs: FORGET_MS });
const listed: readonly TaskId[] = [
  taskId('ps', 0),
  taskId('ps', 1),
  taskId('worker', 0),
  taskId('worker', 1),
];
const contacts = listed.map((task, i) => ({ task, address: `h${i}:1` }));
const chief = listed[2];
const isElastic = (task: TaskId): boolean => !listed.includes(task);

interface Seen {
  readonly at: number;
  readonly by: string;
  readonly effect: Effect;
}

function cluster(delays: readonly number[]) {
  const seen: Seen[] = [];
  let drawn = 0;
  const world: World = new World({
    contacts,
    chief,
    settings,
    delay: () => delays[drawn++ % delays.length]!,
    onEffect: ({ label }, effect, at) => void seen.push({ at, by: label, effect }),
  });
  const tasks = listed.map((task) => world.start(task));
  return { world, tasks, seen };
}

const happening = fc.record({
  what: fc.constantFrom('join', 'join', 'kill', 'leave', 'stop', 'freeze', 'thaw', 'partition', 'heal'),
  whom: fc.nat(15),
  ms: fc.nat(20_000),
});
const history = fc.tuple(
  fc.array(fc.integer({ min: 1, max: 900 }), { minLength: 1, maxLength: 20 }),
  fc.array(happening, { maxLength: 16 }),
);

/** Elastic workers come and end, and listed tasks are frozen or partitioned meanwhile. */
function churn(
  { world, tasks }: ReturnType<typeof cluster>,
  happenings: readonly { what: string; whom: number; ms: number }[],
): void {
  let joined = 0;
  const elastic: Process[] = [];
  const end = (process: Process | undefined, isLeaving: boolean) => {
    if (process?.condition !== 'running') return;
    if (isLeaving) world.dispatch(process, { type: 'leave', now: world.now });
    if (isLeaving) process.condition = 'gone';
    else world.kill(process);
  };
  for (const { what, whom, ms } of happenings) {
    const some = elastic[whom % Math.max(1, elastic.length)];
    const task = tasks[whom % tasks.length]!;
    if (what === 'join') elastic.push(world.start(taskId('worker', 10 + joined++)));
    if (what === 'kill' || what === 'leave') end(some, what === 'leave');
    if (what === 'stop' && some?.condition === 'running') world.freeze(some);
    if (what === 'freeze' && task.condition === 'running') world.freeze(task);
    if (what === 'thaw' && isStill(task)) world.thaw(task);
    if (what === 'partition') world.partition(task.address, tasks[(whom >> 2) % tasks.length]!.address);
    if (what === 'heal') world.heal();
    world.run(ms);
  }
  world.heal();
  for (const process of tasks) if (isStill(process)) world.thaw(process);
  for (const process of elastic) {
    if (isStill(process)) process.condition = 'gone';
    end(process, false);
  }
}

describe('tasks that are not listed', { timeout: 600_000 }, () => {
  it('are forgotten by every task after they have ended, and nothing brings them back', () => {
    fc.assert(
      fc.property(history, ([delays, happenings]) => {
        const made = cluster(delays);
        churn(made, happenings);
        const { world, tasks, seen } = made;
        // Until the last one is noticed, retired by all and removed.
        world.run(1.5 * FORGET_MS);
        const quietSince = world.now;
        for (const { label, state } of tasks) {
          expect(`${label} ${[...state.members.keys()].filter(isElastic)}`).toBe(`${label} `);
          expect([...state.members.values()].map(({ status }) => status)).toEqual(listed.map(() => 'alive'));
        }
        expect(new Set(tasks.map(({ state }) => state.digest)).size).toBe(1);
        world.run(10_000);
        expect(seen.filter(({ at, effect }) => at > quietSince && effect.type === 'announce')).toEqual([]);
      }),
      { numRuns: RUNS },
    );
  });

  it('stay when they are alive, and listed tasks stay when they are dead', () => {
    const { world, tasks } = cluster([1]);
    world.start(taskId('worker', 10));
    world.kill(tasks[1]!);
    world.run(3 * FORGET_MS);
    const members = tasks[0]!.state.members;
    expect(members.get(taskId('worker', 10))?.status).toBe('alive');
    expect(members.get(taskId('ps', 1))?.status).toBe('dead');
  });

  it('are not taken from a task that was stopped while they were forgotten', () => {
    const { world, tasks, seen } = cluster([1]);
    const elastic = world.start(taskId('worker', 10));
    world.run(2000);
    const [ps0, , , worker1] = tasks as [Process, Process, Process, Process];
    world.freeze(worker1);
    world.kill(elastic);
    world.run(2 * FORGET_MS);
    expect([...ps0.state.members.keys()].filter(isElastic)).toEqual([]);
    const since = world.now;
    world.thaw(worker1);
    world.run(30_000);
    expect(worker1.state.members.get(elastic.task)?.status).toBe('dead');
    world.run(2 * FORGET_MS);
    expect([...worker1.state.members.keys()].filter(isElastic)).toEqual([]);
    expect(ps0.state.digest).toBe(worker1.state.digest);
    const events = seen.filter(
      ({ at, by, effect }) => at > since && by === 'ps0' && effect.type === 'joined',
    );
    expect(events).toEqual([]);
  });

  it('are limited in number, in the map and in messages', () => {
    const self = { task: listed[0]!, incarnation: 1, first: 1, nonce: 'n', host: 'h', pid: 1 };
    const state = initialState({
      self: { ...self, agentAddress: contacts[0]!.address, serverAddress: null },
      chief,
      contacts,
      settings,
      now: 0,
    });
    const members = new Map(state.members);
    const number = 2 * MOST_REMEMBERED;
    for (let i = 0; i < number; i++) {
      const task = taskId('worker', 10 + i);
      const gone = { status: 'dead', lastSeen: 0, goneAt: i / number, pendingEvent: undefined } as const;
      members.set(task, { ...members.get(self.task)!, ...gone, task } satisfies Member);
    }
    const { state: next } = reduceMembership({ ...state, members }, { type: 'tick', now: 250 });
    expect(next.members.size).toBe(MOST_REMEMBERED + 1);
    const { lost, members: sent } = messageTo(next, true);
    expect([lost.length, sent.length]).toEqual([MOST_REPORTED, MOST_REPORTED + 1]);
    // Those that ended last.
    expect(lost.some(({ task }) => task === taskId('worker', 10 + number - 1))).toBe(true);
    expect(next.digest).toBe(mapDigest(sent));
  });
});
