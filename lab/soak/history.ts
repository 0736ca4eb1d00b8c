/**
 * Checks the history of a training cluster, as a pure reducer: `reduceHistory(state, event)` returns the next state,
 * with the violations found so far. Events are in the order in which the lab saw them.
 *
 *  1. A chief that another one has followed acknowledges no save, and no task accepts its commit after one of its
 *     successor.
 *  2. Acknowledged saves are of rising steps, and every restore takes a state at least as new as the newest of them.
 *  3. The steps of a worker go back only if a restore explains it; the first step of a process is not before the newest
 *     save that was acknowledged when it started.
 *  4. The newest checkpoint whose bytes can be read is at least as new as the newest acknowledged save.
 *  5. A task that has executed a run of a process executes none of the processes of the same task before it. When it
 *     begins the first one of a process, it has ended all of those before.
 *  6. In a checkpoint of leased input, every record of every epoch was applied as often as the ledger says.
 */

/** A process of a task. A task has several, one after another; two at once while one replaces the other. */
export type ProcessId = number;

export type HistoryEvent = { readonly at: number } & (
  | { readonly type: 'started'; readonly process: ProcessId; readonly task: string }
  | { readonly type: 'ended'; readonly process: ProcessId }
  /** The process was stopped, and will be replaced; it may continue. */
  | { readonly type: 'stopped'; readonly process: ProcessId }
  /** The process stored a shard of a save. `by` is the incarnation of the chief that ordered it. */
  | { readonly type: 'begun'; readonly process: ProcessId; readonly step: number; readonly by: number }
  /** The process stored a manifest for a chief. */
  | {
      readonly type: 'committed';
      readonly process: ProcessId;
      readonly step: number;
      readonly sequence: number;
      readonly by: number;
    }
  /** A chief acknowledged a save. */
  | { readonly type: 'saved'; readonly process: ProcessId; readonly step: number }
  | { readonly type: 'restored'; readonly process: ProcessId; readonly step: number }
  /** A worker made a step. */
  | { readonly type: 'step'; readonly process: ProcessId; readonly step: number }
  /** A step of a worker was lower than the one before. */
  | { readonly type: 'back'; readonly process: ProcessId; readonly from: number; readonly to: number }
  /**
   * The process executes runs of another task, for the first time of that process of the task (`by`: its incarnation), or
   * again after runs of another one. `unfinished`: how many runs of other processes of the task have not ended.
   */
  | {
      readonly type: 'ran';
      readonly process: ProcessId;
      readonly of: string;
      readonly by: number;
      readonly unfinished: number;
    }
  /** All disks were wiped while no task was running. */
  | { readonly type: 'wiped' }
  /** The newest checkpoint on the disks, all of whose bytes were verified. */
  | { readonly type: 'restorable'; readonly step: number }
  /** The ledger in a checkpoint: the records it counts as consumed, and those applied more or less often. */
  | {
      readonly type: 'applied';
      readonly step: number;
      readonly batch: number;
      readonly consumed: number;
      readonly wrong: readonly string[];
    }
);

interface ProcessState {
  readonly task: string;
  /** The newest acknowledged step at its last step, or when it started. */
  readonly saved: number | undefined;
  readonly step: number | undefined;
  readonly stepAt: number;
  /** The highest incarnation of a chief whose commit it has accepted. */
  readonly committedBy: number;
  /** The highest incarnation of each task of which it has executed a run. */
  readonly ranBy: ReadonlyMap<string, number>;
  /** Default: false. */
  readonly isStopped?: boolean;
}

/** Steps that went back, for which no restore is known yet. */
interface Regression {
  readonly task: string;
  readonly from: number;
  readonly to: number;
  /** The time of the last step before. */
  readonly since: number;
  readonly at: number;
  /** The newest acknowledged step at `since`. */
  readonly saved: number | undefined;
}

export interface History {
  readonly chief: string;
  readonly processes: ReadonlyMap<ProcessId, ProcessState>;
  /** The newest acknowledged save, and the chief that made it. */
  readonly saved: { readonly step: number; readonly process: ProcessId } | undefined;
  readonly restores: readonly { readonly at: number; readonly step: number }[];
  /** When chiefs ended or were stopped: a restore that one ordered before may not be logged, or much later. */
  readonly chiefEnds: readonly number[];
  readonly regressions: readonly Regression[];
  readonly violations: readonly string[];
}

/** By how much log lines of two processes may be late. */
const LATE_MS = 5000;

export const newHistory = (chief = 'worker 0'): History => ({
  chief,
  processes: new Map(),
  saved: undefined,
  restores: [],
  chiefEnds: [],
  regressions: [],
  violations: [],
});

export function reduceHistory(before: History, event: HistoryEvent): History {
  const history = expire(before, event.at);
  switch (event.type) {
    case 'started': {
      const { task, process, at } = event;
      const saved = history.saved?.step;
      return withProcess(history, process, {
        task,
        saved,
        step: undefined,
        stepAt: at,
        committedBy: 0,
        ranBy: new Map(),
      });
    }
    case 'ended': {
      const processes = new Map(history.processes);
      processes.delete(event.process);
      return explain({ ...history, processes, chiefEnds: withChiefEnd(history, event) });
    }
    case 'stopped': {
      const known = history.processes.get(event.process);
      const stopped = known ? withProcess(history, event.process, { ...known, isStopped: true }) : history;
      return explain({ ...stopped, chiefEnds: withChiefEnd(history, event) });
    }
    case 'begun':
      return history;
    case 'ran':
      return ran(history, event);
    case 'wiped': {
      // Steps that went back before are explained by now, or not at all.
      const { chief, violations } = expire(history, Number.POSITIVE_INFINITY);
      return { ...newHistory(chief), violations };
    }
    case 'committed':
      return committed(history, event);
    case 'saved':
      return saved(history, event);
    case 'restored': {
      const { step, at, process } = event;
      // Logged when it continued; the restore was made before it was stopped, or its orders were refused.
      if (history.processes.get(process)?.isStopped) return history;
      const restored = explain({ ...history, restores: [...history.restores, { at, step }] });
      const newest = history.saved?.step ?? 0;
      return step < newest
        ? violate(restored, `step ${step} was restored, although the save of step ${newest} was acknowledged`)
        : restored;
    }
    case 'step':
      return stepped(history, event);
    case 'back':
      return wentBack(history, event);
    case 'restorable': {
      const newest = history.saved?.step ?? 0;
      return event.step < newest
        ? violate(
            history,
            `the newest checkpoint on the disks is of step ${event.step}, although the save of step ${newest} was acknowledged`,
          )
        : history;
    }
    case 'applied':
      return applied(history, event);
  }
}

/** The violations of a complete history. */
export function violationsOf(history: History): readonly string[] {
  return expire(history, Number.POSITIVE_INFINITY).violations;
}

type Of<T extends HistoryEvent['type']> = Extract<HistoryEvent, { readonly type: T }>;

/** Reports each violation once: a task that is not fenced repeats it many times per second. */
const violate = (history: History, text: string): History =>
  history.violations.includes(text) ? history : { ...history, violations: [...history.violations, text] };

function withProcess(history: History, process: ProcessId, state: ProcessState): History {
  return { ...history, processes: new Map(history.processes).set(process, state) };
}

function committed(history: History, { process, step, by }: Of<'committed'>): History {
  const known = history.processes.get(process);
  if (!known) return history;
  if (by >= known.committedBy) return withProcess(history, process, { ...known, committedBy: by });
  return violate(
    history,
    `${known.task} accepted the checkpoint of step ${step} from chief ${by}, after one from its successor ${known.committedBy}`,
  );
}

function ran(history: History, { process, of, by, unfinished }: Of<'ran'>): History {
  const known = history.processes.get(process);
  if (!known) return history;
  const highest = known.ranBy.get(of) ?? 0;
  if (by < highest)
    return violate(
      history,
      `${known.task} executed a run of ${of}, incarnation ${by}, after one of its successor ${highest}`,
    );
  const next = withProcess(history, process, { ...known, ranBy: new Map(known.ranBy).set(of, by) });
  if (unfinished === 0) return next;
  return violate(
    next,
    `${known.task} began a run of ${of}, incarnation ${by}, before ${unfinished} of the processes before it had ended`,
  );
}

function saved(history: History, { process, step }: Of<'saved'>): History {
  const newest = history.saved;
  if (newest && process < newest.process)
    return violate(
      history,
      `process ${process} of the chief acknowledged the save of step ${step}, after its successor ${newest.process} had acknowledged one`,
    );
  const next = { ...history, saved: { process, step: Math.max(step, newest?.step ?? 0) } };
  if (!newest || step >= newest.step) return next;
  return violate(next, `the save of step ${step} was acknowledged after that of step ${newest.step}`);
}

function stepped(history: History, { process, step, at }: Of<'step'>): History {
  const known = history.processes.get(process);
  if (!known) return history;
  if (known.step !== undefined && step < known.step)
    return wentBack(history, { type: 'back', at, process, from: known.step, to: step });
  const next = withProcess(history, process, { ...known, step, stepAt: at, saved: history.saved?.step });
  if (known.step !== undefined || step >= (known.saved ?? 0)) return next;
  return violate(
    next,
    `the first step of ${known.task} was ${step}, although the save of step ${known.saved} was acknowledged before it started`,
  );
}

function wentBack(history: History, { process, from, to, at }: Of<'back'>): History {
  const known = history.processes.get(process);
  if (!known) return history;
  const next = withProcess(history, process, { ...known, step: to, stepAt: at, saved: history.saved?.step });
  const { task, stepAt: since, saved: floor } = known;
  const regression = { task, from, to, since, at, saved: floor };
  return explain({ ...next, regressions: [...next.regressions, regression] });
}

function withChiefEnd(
  { processes, chief, chiefEnds }: History,
  { process, at }: Of<'ended'> | Of<'stopped'>,
): readonly number[] {
  return processes.get(process)?.task === chief ? [...chiefEnds, at] : chiefEnds;
}

/** Removes the regressions that a restore explains, or the end of a chief that may have ordered one. */
function explain(history: History): History {
  const { restores, chiefEnds } = history;
  const isExplained = ({ to, since, at, saved: floor }: Regression) => {
    const isMeanwhile = (time: number) => time >= since - LATE_MS && time <= at + LATE_MS;
    if (restores.some((restore) => isMeanwhile(restore.at) && restore.step <= to)) return true;
    return to >= (floor ?? 0) && chiefEnds.some(isMeanwhile);
  };
  return { ...history, regressions: history.regressions.filter((one) => !isExplained(one)) };
}

/** Regressions that nothing has explained in time are violations. */
function expire(history: History, now: number): History {
  const late = history.regressions.filter(({ at }) => at + LATE_MS < now);
  if (late.length === 0) return history;
  const texts = late.map(
    ({ task, from, to }) => `${task} went back from step ${from} to ${to} without a restore`,
  );
  const regressions = history.regressions.filter((one) => !late.includes(one));
  return { ...history, regressions, violations: [...history.violations, ...texts] };
}

function applied(history: History, { step, batch, consumed, wrong }: Of<'applied'>): History {
  const found: string[] = [];
  if (consumed !== step * batch)
    found.push(
      `the ledger of step ${step} counts ${consumed} consumed records, ${step} steps consume ${step * batch}`,
    );
  if (wrong.length > 0)
    found.push(
      `in the checkpoint of step ${step} ${wrong.length} records were not applied as the ledger says: ${wrong.slice(0, 5).join(', ')}`,
    );
  return found.reduce(violate, history);
}
