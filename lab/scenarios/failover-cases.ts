/** The cases of scenario 003: who is killed, when, and where it is launched again. */
import { CHIEF, type Hold, TASKS, type TaskName } from '../cluster/failover-tasks.js';

/** `start`: before the first step. `end`: during the last save. */
export type Moment = 'quiet' | 'save' | 'restore' | 'start' | 'end';

export interface FailoverCase {
  readonly name: string;
  readonly moment: Moment;
  readonly victims: readonly TaskName[];
  /** Whether the victims are launched on other hosts with empty disks, or on the same hosts with their disks. */
  readonly moved: boolean;
  /** A disk that is emptied while all tasks are dead. */
  readonly wiped?: TaskName;
  /** The task that is stopped when the victims are killed, and at which fault point. */
  readonly hold?: Hold;
  /** The ps that is replaced before, so that its restore is interrupted. */
  readonly replaced?: TaskName;
}

const hold = (task: TaskName, point: string): Hold => ({ task, point: `checkpoint.${point}` });

/** Where a save is interrupted: on the same host, moved. A worker has no part in a save but its pause. */
const SAVE: Record<TaskName, readonly [Hold, Hold]> = {
  'ps 0': [hold('ps 0', 'snapshot.after'), hold('ps 0', 'write.after')],
  'ps 1': [hold('ps 1', 'write.before'), hold('ps 1', 'write.verified')],
  'worker 0': [hold('worker 0', 'manifest.before'), hold('worker 0', 'manifest.after')],
  'worker 1': [hold('ps 0', 'snapshot.before'), hold('worker 0', 'index.before')],
};

const RESTORE: Record<TaskName, readonly [Hold, Hold]> = {
  'ps 0': [hold('ps 1', 'restore.before'), hold('ps 1', 'restore.amid')],
  'ps 1': [hold('ps 0', 'restore.before'), hold('ps 0', 'restore.amid')],
  'worker 0': [hold('ps 1', 'restore.before'), hold('ps 0', 'restore.amid')],
  'worker 1': [hold('ps 1', 'restore.amid'), hold('ps 0', 'restore.before')],
};

const END: Record<TaskName, readonly [Hold, Hold]> = {
  ...SAVE,
  'worker 1': [hold('worker 0', 'index.before'), hold('worker 0', 'manifest.before')],
};

const PAIRS: readonly (readonly [TaskName, TaskName])[] = [
  ['ps 0', 'ps 1'],
  ['ps 1', 'worker 0'],
  ['worker 0', 'worker 1'],
  ['ps 0', 'worker 1'],
];

/** `save/chief/moved`. */
const nameOf = (moment: string, victims: readonly TaskName[], place: string): string =>
  [moment, victims.map((name) => (name === CHIEF ? 'chief' : name.replace(' ', ''))).join('+'), place].join(
    '/',
  );

const PLACES = [false, true];
const placeName = (moved: boolean) => (moved ? 'moved' : 'same');

function single(moment: Moment, victim: TaskName, moved: boolean): FailoverCase {
  const index = moved ? 1 : 0;
  const common = { name: nameOf(moment, [victim], placeName(moved)), moment, victims: [victim], moved };
  if (moment === 'save') return { ...common, hold: SAVE[victim][index] };
  if (moment === 'end') return { ...common, hold: END[victim][index] };
  if (moment !== 'restore') return common;
  const held = RESTORE[victim][index];
  return { ...common, hold: held, replaced: held.task };
}

const each = (moment: Moment): readonly FailoverCase[] =>
  TASKS.flatMap((victim) => PLACES.map((moved) => single(moment, victim, moved)));

const pairs = (moved: boolean): readonly FailoverCase[] =>
  PAIRS.map((victims) => ({
    name: nameOf('quiet', victims, placeName(moved)),
    moment: 'quiet',
    victims,
    moved,
  }));

/** All cases in the order of a run: those at the start of the cluster, while it trains, and at its end. */
export const CASES: readonly FailoverCase[] = [
  ...each('start'),
  ...each('quiet'),
  ...each('save'),
  ...each('restore'),
  ...pairs(false),
  { name: 'all/same', moment: 'quiet', victims: TASKS, moved: false },
  { name: 'all/wiped-ps1', moment: 'quiet', victims: TASKS, moved: false, wiped: 'ps 1' },
  { name: 'all/wiped-chief', moment: 'quiet', victims: TASKS, moved: false, wiped: CHIEF },
  ...pairs(true),
  ...each('end'),
];
