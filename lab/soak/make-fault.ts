/** Makes one random fault of a soak. */
import { CHIEF, TASKS, type TaskName } from '../cluster/failover-tasks.js';
import type { Fault, Place, Return } from './faults.js';
import { between, oneOf, type Random } from './random.js';

/** The weights of the kinds. */
const WEIGHTS: readonly (readonly [Fault['kind'], number])[] = [
  ['kill', 8],
  ['kill-in-restore', 2],
  ['replace', 8],
  ['new-job', 2],
  ['cut', 6],
  ['block', 3],
  ['freeze', 3],
  ['partition', 2],
  ['one-way', 2],
  ['slow', 2],
  ['full-disk', 2],
  ['clock', 2],
];

export const KINDS: readonly Fault['kind'][] = WEIGHTS.map(([kind]) => kind);

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
/** Points of the programs of the lab (lab/programs/observe.ts): a run that a worker makes, or that a ps executes. */
const RUN = { worker: 'lab.run', ps: 'lab.stage' } as const;
/** The first runs of a process find out the state of the cluster and prepare it. */
const FIRST_RUNS = 8;
/** Where the chief of a new job is stopped: before it initializes the variables, or at one of its first runs. */
const NEW_JOB_POINTS = ['lab.initialize#1', 'lab.initialize#1', 'lab.run#2', 'lab.run#4', 'lab.run#7'];

export function makeFault(random: Random, kinds: readonly Fault['kind'][] = KINDS): Fault {
  const kind = weighted(random, kinds);
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
      return makeReplace(random, task);
    case 'new-job':
      return { kind, point: oneOf(random, NEW_JOB_POINTS), ...returnOf(random) };
    case 'cut':
      return makeCut(random, task);
    case 'block':
      return { kind, task, ms: random() < 0.2 ? between(random, 6000, 15_000) : ms };
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

function weighted(random: Random, kinds: readonly Fault['kind'][]): Fault['kind'] {
  const weights = WEIGHTS.filter(([kind]) => kinds.includes(kind));
  let rest = random() * weights.reduce((sum, [, weight]) => sum + weight, 0);
  for (const [kind, weight] of weights) {
    rest -= weight;
    if (rest < 0) return kind;
  }
  return weights.at(-1)?.[0] ?? 'kill';
}

function makeReplace(random: Random, task: TaskName): Fault {
  const fault = { kind: 'replace', task, ...returnOf(random) } as const;
  const isPs = task.startsWith('ps');
  const run = RUN[isPs ? 'ps' : 'worker'];
  const moment = oneOf(random, ['any', 'start', 'step', 'save', 'restore'] as const);
  if (moment === 'start')
    return { ...fault, isStarting: true, point: `${run}#${between(random, 1, FIRST_RUNS + 1)}` };
  if (moment === 'step') return { ...fault, point: run };
  if (moment === 'save' && (isPs || task === CHIEF))
    return { ...fault, point: `checkpoint.${oneOf(random, SAVE_POINTS[isPs ? 'ps' : 'chief'])}` };
  if (moment !== 'restore') return fault;
  const point = `checkpoint.${oneOf(random, RESTORE_POINTS)}`;
  // A ps is stopped in its own restore, a worker in that of a ps.
  return isPs
    ? { ...fault, isStarting: true, point: `${point}#1` }
    : { ...fault, restoring: { task: oneOf(random, PS), point } };
}

const returnOf = (random: Random): Return => ({
  // Shorter and longer than the time after which the task counts as lost.
  aloneMs: oneOf(random, [0, between(random, 0, 2000), between(random, 3200, 4500)]),
  after: oneOf(random, ['launch', 'training', 'training'] as const),
  ms: between(random, 0, 2500),
});

function makeCut(random: Random, task: TaskName): Fault {
  const peer = oneOf(
    random,
    TASKS.filter((name) => name !== task),
  );
  return {
    kind: 'cut',
    task,
    peer,
    opener: oneOf(random, ['task', 'peer'] as const),
    which: random() < 0.3 ? 'all' : random(),
    times: oneOf(random, [1, 1, 2, 4]),
    gapMs: between(random, 50, 1500),
    isSilent: random() < 0.25,
  };
}
