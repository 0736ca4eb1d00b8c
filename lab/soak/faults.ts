/**
 * The faults of a soak, as a pure function of its seed: the same seed gives the same bursts of faults, however many are
 * made. A burst is one to three faults that overlap; the next one starts when the cluster has recovered.
 *
 * With one replica of each shard a burst destroys at most one disk, and nothing else in it keeps saves from making their
 * copies.
 */
import { CHIEF, type Hold, TASKS, type TaskName } from '../cluster/failover-tasks.js';
import type { NetworkTraits } from '../hosts/hosts.js';
import { between, oneOf, type Random, randomFrom } from './random.js';

/** Where a killed task is launched again: with its disk, with an empty disk, on another host with an empty disk. */
export type Place = 'same' | 'wiped' | 'moved';

export type Fault =
  /**
   * SIGKILL; `hold`: while that task is stopped at a fault point of a save; `clockMs`: launched again with a clock that
   * is wrong for some seconds.
   */
  | {
      readonly kind: 'kill';
      readonly victims: readonly TaskName[];
      readonly place: Place;
      readonly downMs: number;
      readonly hold?: Hold;
      readonly clockMs?: number;
    }
  /** A ps is killed and launched again; it is stopped during its restore while the victim is killed. */
  | {
      readonly kind: 'kill-in-restore';
      readonly hold: Hold;
      readonly victims: readonly [TaskName];
      readonly place: Place;
    }
  /** The task is stopped, another process of it is launched on another host, and the first one continues. */
  | { readonly kind: 'replace'; readonly task: TaskName; readonly ms: number }
  | { readonly kind: 'freeze'; readonly task: TaskName; readonly ms: number }
  | { readonly kind: 'partition'; readonly task: TaskName; readonly ms: number }
  /** Packets from (`out`) or to (`in`) the host of the task are dropped. */
  | {
      readonly kind: 'one-way';
      readonly task: TaskName;
      readonly direction: 'in' | 'out';
      readonly ms: number;
    }
  | { readonly kind: 'slow'; readonly task: TaskName; readonly traits: NetworkTraits; readonly ms: number }
  | { readonly kind: 'full-disk'; readonly task: TaskName; readonly ms: number }
  /** The wall clock of the process is wrong, then right again. */
  | { readonly kind: 'clock'; readonly task: TaskName; readonly offsetMs: number; readonly ms: number };

export interface TimedFault {
  /** From 1. */
  readonly number: number;
  /** After the beginning of the burst. */
  readonly delayMs: number;
  readonly fault: Fault;
}

export interface Burst {
  readonly faults: readonly TimedFault[];
}

/** The weights of the kinds. */
const KINDS: readonly (readonly [Fault['kind'], number])[] = [
  ['kill', 10],
  ['kill-in-restore', 2],
  ['replace', 2],
  ['freeze', 3],
  ['partition', 2],
  ['one-way', 2],
  ['slow', 2],
  ['full-disk', 2],
  ['clock', 2],
];

const PS: readonly TaskName[] = ['ps 0', 'ps 1'];
/** Shorter and longer than the time after which a silent task counts as dead, 3 s. */
const SHORT_MS = [200, 2000] as const;
const LONG_MS = [3500, 6000] as const;
const HOUR_MS = 3_600_000;
const SAVE_POINTS: Readonly<Record<'ps' | 'chief', readonly string[]>> = {
  ps: ['snapshot.before', 'snapshot.after', 'write.before', 'write.after', 'write.verified'],
  chief: ['index.before', 'index.after', 'manifest.before', 'manifest.after'],
};
const RESTORE_POINTS = ['restore.before', 'restore.amid'] as const;

/** The bursts of a seed, without end. */
export function* burstsOf(seed: number): Generator<Burst> {
  let number = 0;
  for (let index = 0; ; index++) {
    // Each burst has its own numbers, so that a change of one does not change those after it.
    const random = randomFrom(seed, index);
    const size = oneOf(random, [1, 1, 2, 2, 3]);
    const faults: TimedFault[] = [];
    for (let tries = 0; faults.length < size && tries < 50; tries++) {
      const fault = makeFault(random);
      if (!faults.every((other) => mayOverlap(other.fault, fault))) continue;
      const delayMs = faults.length === 0 ? 0 : between(random, 0, 1500);
      number += 1;
      faults.push({ number, delayMs, fault });
    }
    yield { faults };
  }
}

/** The bursts with the faults [from, to]; a burst is made completely or not at all. */
export function burstsBetween(seed: number, from: number, to: number): readonly Burst[] {
  const found: Burst[] = [];
  for (const burst of burstsOf(seed)) {
    const [first, last] = [burst.faults[0]!.number, burst.faults.at(-1)!.number];
    if (first > to) return found;
    if (last >= from) found.push(burst);
  }
  return found;
}

/** The tasks that a fault concerns. */
export function tasksOf(fault: Fault): readonly TaskName[] {
  switch (fault.kind) {
    case 'kill':
      return [...fault.victims, ...(fault.hold ? [fault.hold.task] : [])];
    case 'kill-in-restore':
      return [...fault.victims, fault.hold.task];
    default:
      return [fault.task];
  }
}

/** The tasks whose processes a fault ends. */
export function endedBy(fault: Fault): readonly TaskName[] {
  if (fault.kind === 'kill') return fault.victims;
  if (fault.kind === 'kill-in-restore') return [...fault.victims, fault.hold.task];
  return fault.kind === 'replace' ? [fault.task] : [];
}

const destroysDisk = (fault: Fault): boolean =>
  fault.kind === 'replace' || ('place' in fault && fault.place !== 'same');

/** Whether two faults may be in one burst. */
export function mayOverlap(a: Fault, b: Fault): boolean {
  if (tasksOf(a).some((task) => tasksOf(b).includes(task))) return false;
  const isHeld = (fault: Fault) => 'hold' in fault && fault.hold !== undefined;
  if (isHeld(a) && isHeld(b)) return false;
  if (endedBy(a).length + endedBy(b).length > 2) return false;
  const isHarmless = (fault: Fault) =>
    fault.kind === 'clock' || fault.kind === 'slow' || (fault.kind === 'kill' && !destroysDisk(fault));
  return (!destroysDisk(a) || isHarmless(b)) && (!destroysDisk(b) || isHarmless(a));
}

function makeFault(random: Random): Fault {
  const kind = weighted(random);
  const task = oneOf(random, TASKS);
  const [low, high] = oneOf<readonly [number, number]>(random, [SHORT_MS, LONG_MS]);
  const ms = between(random, low, high);
  switch (kind) {
    case 'kill':
      return makeKill(random);
    case 'kill-in-restore': {
      const restored = oneOf(random, PS);
      const hold = { task: restored, point: `checkpoint.${oneOf(random, RESTORE_POINTS)}` };
      const victim = oneOf(
        random,
        TASKS.filter((name) => name !== restored),
      );
      return { kind, hold, victims: [victim], place: placeOf(random) };
    }
    case 'replace':
      return { kind, task, ms: between(random, 500, 5000) };
    case 'one-way':
      return { kind, task, ms, direction: oneOf(random, ['in', 'out'] as const) };
    case 'slow': {
      const traits = { delayMs: between(random, 5, 80), lossPct: oneOf(random, [0, 0, 1, 5]) };
      return { kind, task, ms, traits };
    }
    case 'clock':
      return { kind, task, ms, offsetMs: clockOffset(random) };
    default:
      return { kind, task, ms };
  }
}

function makeKill(random: Random): Fault {
  const kind = 'kill';
  const downMs = between(random, 0, 1500);
  const victim = oneOf(random, TASKS);
  if (random() < 0.2) {
    const other = oneOf(
      random,
      TASKS.filter((name) => name !== victim),
    );
    return { kind, victims: [victim, other], place: 'same', downMs };
  }
  const place = placeOf(random);
  if (random() < 0.1) return { kind, victims: [victim], place, downMs, clockMs: clockOffset(random) };
  if (random() < 0.6) return { kind, victims: [victim], place, downMs };
  const task = oneOf(random, [...PS, CHIEF]);
  const point = oneOf(random, SAVE_POINTS[task === CHIEF ? 'chief' : 'ps']);
  return { kind, victims: [victim], place, downMs, hold: { task, point: `checkpoint.${point}` } };
}

const clockOffset = (random: Random): number => oneOf(random, [-24, -1, -1 / 60, 1 / 60, 1, 24]) * HOUR_MS;

const placeOf = (random: Random): Place => oneOf(random, ['same', 'same', 'wiped', 'moved']);

function weighted(random: Random): Fault['kind'] {
  let rest = random() * KINDS.reduce((sum, [, weight]) => sum + weight, 0);
  for (const [kind, weight] of KINDS) {
    rest -= weight;
    if (rest < 0) return kind;
  }
  return 'kill';
}

const PLACES: Readonly<Record<Place, string>> = {
  same: '',
  wiped: ', disk wiped',
  moved: ', moved to another host',
};

/** `kill ps 0, moved to another host`. */
export function describeFault(fault: Fault): string {
  const secs = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
  const minutes = (ms: number) => `${(ms / 60_000).toFixed(0)} min`;
  switch (fault.kind) {
    case 'kill': {
      const held = fault.hold ? ` while ${fault.hold.task} is at ${fault.hold.point}` : '';
      const clock = fault.clockMs === undefined ? '' : `, with a clock wrong by ${minutes(fault.clockMs)}`;
      return `kill ${fault.victims.join(' and ')}${held}${PLACES[fault.place]}${clock}`;
    }
    case 'kill-in-restore':
      return `kill ${fault.hold.task}, then ${fault.victims[0]} while it is at ${fault.hold.point}${PLACES[fault.place]}`;
    case 'replace':
      return `freeze ${fault.task} for ${secs(fault.ms)} and replace it on another host`;
    case 'one-way':
      return `drop packets ${fault.direction === 'in' ? 'to' : 'from'} ${fault.task} for ${secs(fault.ms)}`;
    case 'slow':
      return `slow network of ${fault.task}, ${fault.traits.delayMs} ms and ${fault.traits.lossPct} % loss, for ${secs(fault.ms)}`;
    case 'clock':
      return `clock of ${fault.task} wrong by ${minutes(fault.offsetMs)} for ${secs(fault.ms)}`;
    case 'full-disk':
      return `full disk of ${fault.task} for ${secs(fault.ms)}`;
    default:
      return `${fault.kind} ${fault.task} for ${secs(fault.ms)}`;
  }
}
