/** The events of all tasks on one clock, in the window that a trace is about, with calls and their stages as pairs. */
import { trains } from '../../../distributed/cluster/spec/task-id.js';
import type {
  TaskTraceEvent,
  TracedCall,
  TracedSpan,
  TracedStage,
} from '../../../distributed/engine/trace/task-trace.js';
import { type CollectedTask, type Collection, isStep, OWN_CLOCK } from './collect.js';

export interface AlignedTask {
  readonly task: string;
  /** The task, its host, and how exact its times are. */
  readonly label: string;
  readonly spans: readonly TracedSpan[];
  readonly calls: readonly TracedCall[];
  readonly stages: readonly TracedStage[];
  /** The calls of this task whose stages are known. */
  readonly pairs: readonly (readonly [TracedCall, TracedStage])[];
  /** How much the times of this task may differ from those of the others, in microseconds. */
  readonly uncertainty: number;
}

/** Everything from when all tasks were traced until each worker had made the steps. */
export function alignedTasks({ tasks, clocks }: Collection, steps: number): readonly AlignedTask[] {
  for (const [{ call, stage }, caller, callee] of exactPairs(tasks)) {
    clocks.message(caller, call.from, callee, stage.from);
    clocks.message(callee, stage.to, caller, call.to);
  }
  // Tasks that exchange tensors know each other's clocks better than this command does.
  const reference = tasks.find(({ task }) => trains(task)) ?? tasks[0];
  const known = clocks.aligned(reference?.task ?? OWN_CLOCK);
  const onOneClock = tasks.map((collected) => {
    const { ahead, uncertainty } = known.get(collected.task) ?? { ahead: 0, uncertainty: 0 };
    const shift = Math.round(ahead);
    return {
      ...{ collected, uncertainty, marked: collected.marked - shift },
      events: collected.events.map((event) => moved(event, shift)),
    };
  });
  const begin = Math.min(...onOneClock.map(({ marked }) => marked));
  const ends = onOneClock.flatMap(({ events, marked }) => endOf(events, marked, steps) ?? []);
  const end = ends.length === 0 ? Number.POSITIVE_INFINITY : Math.max(...ends);
  const inWindow = onOneClock.map(({ collected, uncertainty, events }) => {
    const inside = events
      .filter(({ from }) => from >= begin && from < end)
      .map((event) => moved(event, begin));
    const { task, host } = collected;
    return {
      ...{ task, uncertainty },
      label: `${task} · ${host} · ± ${(uncertainty / 1000).toFixed(2)} ms`,
      spans: inside.filter((event) => event.kind === 'span'),
      calls: inside.filter((event) => event.kind === 'call'),
      stages: inside.filter((event) => event.kind === 'stage'),
    };
  });
  const stageOf = new Map(
    inWindow.flatMap(({ task, stages }) =>
      stages.map((stage) => [keyOf(stage.caller, task, stage), stage] as const),
    ),
  );
  return inWindow.map((task) => ({
    ...task,
    pairs: task.calls.flatMap((call) => {
      const stage = stageOf.get(keyOf(task.task, call.task, call));
      return stage && isPossible(call, stage, task.uncertainty) ? [[call, stage] as const] : [];
    }),
  }));
}

/** When the task had made its steps; never: infinity. Undefined: it makes none. */
function endOf(events: readonly TaskTraceEvent[], marked: number, steps: number): number | undefined {
  const own = events.filter((event) => isStep(event, marked)).map(({ to }) => to);
  if (own.length === 0) return undefined;
  return own.sort((a, b) => a - b)[steps - 1] ?? Number.POSITIVE_INFINITY;
}

const keyOf = (caller: string, callee: string, { call, stage }: TracedCall | TracedStage): string =>
  `${caller} ${callee} ${call} ${stage}`;

/** After a reconnection the numbers begin again: a stage of another call lies elsewhere in time. */
const SLACK = 10_000;
const isPossible = (call: TracedCall, stage: TracedStage, uncertainty: number): boolean =>
  stage.from >= call.from - uncertainty - SLACK &&
  stage.to <= call.to + uncertainty + SLACK &&
  stage.from <= call.to &&
  stage.to >= call.from;

/** Calls and stages whose numbers are unique on both sides. */
function* exactPairs(
  tasks: readonly CollectedTask[],
): Iterable<readonly [{ call: TracedCall; stage: TracedStage }, string, string]> {
  const stages = new Map<string, TracedStage | undefined>();
  for (const { task, events } of tasks) {
    for (const event of events) {
      if (event.kind !== 'stage') continue;
      const key = keyOf(event.caller, task, event);
      stages.set(key, stages.has(key) ? undefined : event);
    }
  }
  const seen = new Set<string>();
  for (const { task, events } of tasks) {
    for (const call of events) {
      if (call.kind !== 'call') continue;
      const key = keyOf(task, call.task, call);
      const stage = stages.get(key);
      if (stage && !seen.has(key)) yield [{ call, stage }, task, call.task];
      seen.add(key);
    }
  }
}

function moved<T extends TaskTraceEvent>(event: T, by: number): T {
  const later = { ...event, from: event.from - by, to: event.to - by };
  if (later.kind === 'stage') {
    const { waited, begun } = later;
    return { ...later, waited: minus(waited, by), begun: minus(begun, by) };
  }
  return later;
}

const minus = (time: number | undefined, by: number): number | undefined =>
  time === undefined ? undefined : time - by;
