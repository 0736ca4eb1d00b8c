/**
 * The faults of a soak, and which of them may overlap. With one replica of each shard a burst destroys at most one disk,
 * and nothing else in it keeps saves from making their copies.
 */
import { CHIEF, type Hold, TASKS, type TaskName } from '../cluster/failover-tasks.js';
import type { NetworkTraits } from '../hosts/hosts.js';

/** Where a killed task is launched again: with its disk, with an empty disk, on another host with an empty disk. */
export type Place = 'same' | 'wiped' | 'moved';

/** When a process that is replaced continues: some time after its successor was launched, or has begun to train. */
export interface Return {
  /** How long the task is stopped before its successor is launched. */
  readonly aloneMs: number;
  readonly after: 'launch' | 'training';
  readonly ms: number;
}

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
  /**
   * The task is stopped, another process of it is launched on another host, and the first one continues. It is stopped at
   * any moment, or at a fault point: of a step or a save, or of its start (`isStarting`: it is killed and launched again
   * before). `restoring`: while that ps is stopped at a fault point of its restore.
   */
  | ({
      readonly kind: 'replace';
      readonly task: TaskName;
      readonly point?: string;
      readonly isStarting?: boolean;
      readonly restoring?: Hold;
    } & Return)
  /** All tasks are killed and all disks wiped; when the job starts again, its chief is stopped and replaced as above. */
  | ({ readonly kind: 'new-job'; readonly point: string } & Return)
  /**
   * A connection between two tasks is destroyed at the end of `task`, so many times. `isSilent`: the other end does not
   * learn of it.
   */
  | {
      readonly kind: 'cut';
      readonly task: TaskName;
      readonly peer: TaskName;
      /** Which task has opened the connection. */
      readonly opener: 'task' | 'peer';
      /** One of those connections, as a part of 1, or all. */
      readonly which: number | 'all';
      readonly times: number;
      readonly gapMs: number;
      readonly isSilent: boolean;
    }
  /** The main thread of the task does nothing else. */
  | { readonly kind: 'block'; readonly task: TaskName; readonly ms: number }
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

/** The tasks that a fault concerns. */
export function tasksOf(fault: Fault): readonly TaskName[] {
  switch (fault.kind) {
    case 'kill':
      return [...fault.victims, ...(fault.hold ? [fault.hold.task] : [])];
    case 'kill-in-restore':
      return [...fault.victims, fault.hold.task];
    case 'cut':
      return [fault.task, fault.peer];
    case 'replace':
      return [fault.task, ...(fault.restoring ? [fault.restoring.task] : [])];
    case 'new-job':
      return TASKS;
    default:
      return [fault.task];
  }
}

/** The tasks whose processes a fault ends. */
export function endedBy(fault: Fault): readonly TaskName[] {
  if (fault.kind === 'kill') return fault.victims;
  if (fault.kind === 'kill-in-restore') return [...fault.victims, fault.hold.task];
  return fault.kind === 'replace' || fault.kind === 'new-job' ? tasksOf(fault) : [];
}

export const destroysDisk = (fault: Fault): boolean =>
  fault.kind === 'replace' || fault.kind === 'new-job' || ('place' in fault && fault.place !== 'same');

/** Whether two faults may be in one burst. */
export function mayOverlap(a: Fault, b: Fault): boolean {
  if (tasksOf(a).some((task) => tasksOf(b).includes(task))) return false;
  const isHeld = (fault: Fault) =>
    ('hold' in fault && fault.hold !== undefined) || ('point' in fault && fault.point !== undefined);
  if (isHeld(a) && isHeld(b)) return false;
  if (endedBy(a).length + endedBy(b).length > 2) return false;
  const isHarmless = (fault: Fault) =>
    ['clock', 'slow', 'cut', 'block'].includes(fault.kind) || (fault.kind === 'kill' && !destroysDisk(fault));
  return (!destroysDisk(a) || isHarmless(b)) && (!destroysDisk(b) || isHarmless(a));
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
    case 'replace': {
      const { task, point, isStarting, restoring } = fault;
      const moment = restoring
        ? ` while ${restoring.task} is at ${restoring.point}`
        : point
          ? ` at ${point}`
          : '';
      return `stop ${task}${isStarting ? ', launched again,' : ''}${moment}, replace it on another host${describeReturn(fault)}`;
    }
    case 'new-job':
      return `a new job on empty disks: stop ${CHIEF} at ${fault.point}, replace it on another host${describeReturn(fault)}`;
    case 'cut': {
      const { task, peer, opener, which, times, isSilent } = fault;
      const what = which === 'all' ? 'all connections' : 'a connection';
      const whose = opener === 'task' ? `of ${task} to ${peer}` : `of ${peer} to ${task}`;
      return `cut ${what} ${whose} at the end of ${task}${isSilent ? ', silently' : ''}${times > 1 ? `, ${times} times` : ''}`;
    }
    case 'block':
      return `block the main thread of ${fault.task} for ${secs(fault.ms)}`;
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

const describeReturn = ({ aloneMs, after, ms }: Return): string =>
  ` after ${(aloneMs / 1000).toFixed(1)} s, continue it ${(ms / 1000).toFixed(1)} s after the ${after} of its successor`;
