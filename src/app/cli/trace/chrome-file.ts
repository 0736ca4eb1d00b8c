/**
 * A trace in the format of Chrome's trace viewer, which Perfetto reads: a process for each task, with rows for its steps,
 * its runs, its calls to each other task, and the stages that it runs. An arrow leads from a call to its stage.
 */
import { bytes } from '../../../base/text/format.js';
import { compareTasks, type TaskId } from '../../../distributed/cluster/spec/task-id.js';
import type { TracedCall, TracedSpan, TracedStage } from '../../../distributed/engine/trace/task-trace.js';
import type { AlignedTask } from './aligned.js';
import { type Span, withoutOverlap } from './rows.js';

/** Times are in microseconds. */
export interface ChromeEvent {
  /** A complete slice, the start and the end of an arrow, or the name of a process or row. */
  readonly ph: 'X' | 's' | 'f' | 'M';
  readonly pid: number;
  readonly tid: number;
  readonly name: string;
  readonly cat?: string;
  readonly ts?: number;
  readonly dur?: number;
  readonly id?: number;
  /** The arrow ends at the slice around it. */
  readonly bp?: 'e';
  readonly args?: Readonly<Record<string, unknown>>;
}

interface Slice extends Span {
  readonly name: string;
  readonly cat: string;
  readonly args: Readonly<Record<string, unknown>>;
  /** Inside it, one after the other. */
  readonly parts?: readonly Slice[];
  /** The arrow that begins or ends here. */
  readonly arrow?: { readonly ph: 's' | 'f'; readonly id: number; readonly ts: number };
}

export function chromeEvents(tasks: readonly AlignedTask[]): readonly ChromeEvent[] {
  const arrows = arrowsOf(tasks);
  return tasks.flatMap((task, at) => processEvents(task, at + 1, arrows));
}

/** The number of the arrow of each call that is known at both ends, and what is known at the other end. */
interface Arrow {
  readonly id: number;
  readonly call: TracedCall;
  readonly stage: TracedStage;
}

function arrowsOf(tasks: readonly AlignedTask[]): ReadonlyMap<TracedCall | TracedStage, Arrow> {
  const arrows = new Map<TracedCall | TracedStage, Arrow>();
  let id = 0;
  for (const { pairs } of tasks) {
    for (const [call, stage] of pairs) {
      id += 1;
      const arrow = { id, call, stage };
      arrows.set(call, arrow).set(stage, arrow);
    }
  }
  return arrows;
}

function processEvents(
  { task, label, spans, calls, stages }: AlignedTask,
  pid: number,
  arrows: ReadonlyMap<TracedCall | TracedStage, Arrow>,
): readonly ChromeEvent[] {
  const named = (name: string, args: ChromeEvent['args'], tid = 0): ChromeEvent => ({
    ...{ ph: 'M', pid, tid, name, args },
  });
  const events: ChromeEvent[] = [
    named('process_name', { name: label }),
    named('process_sort_index', { sort_index: pid }),
  ];
  let tid = 0;
  const add = (title: string, slices: readonly Slice[]) => {
    for (const [i, row] of withoutOverlap(slices).entries()) {
      tid += 1;
      events.push(named('thread_name', { name: i === 0 ? title : `${title} (${i + 1})` }, tid));
      events.push(named('thread_sort_index', { sort_index: tid }, tid));
      for (const slice of row) events.push(...sliceEvents(slice, pid, tid));
    }
  };
  for (const row of ['steps', 'training', 'runs'] as const)
    add(row, spans.filter((span) => span.row === row).map(spanSlice));
  for (const [callee, some] of [...grouped(calls, (call) => call.task)].sort(([a], [b]) =>
    compareTasks(a as TaskId, b as TaskId),
  ))
    add(
      `calls to ${callee}`,
      some.map((call) => callSlice(call, arrows.get(call))),
    );
  const slices = (some: readonly TracedStage[]) =>
    some.map((stage) => stageSlice(stage, task, arrows.get(stage)));
  add('stages', slices(stages.filter(({ waitedFor }) => waitedFor === undefined)));
  add('stages that wait', slices(stages.filter(({ waitedFor }) => waitedFor !== undefined)));
  return events;
}

function* sliceEvents(slice: Slice, pid: number, tid: number): Iterable<ChromeEvent> {
  const { name, cat, from, to, args, parts = [], arrow } = slice;
  yield { ph: 'X', pid, tid, name, cat, ts: from, dur: to - from, args };
  if (arrow) yield { pid, tid, name: 'call', cat: 'call', ...arrow, ...(arrow.ph === 'f' && { bp: 'e' }) };
  for (const part of parts) yield* sliceEvents(part, pid, tid);
}

const spanSlice = ({ what, row, from, to, run, error }: TracedSpan): Slice => ({
  ...{ name: what.replace(/^A run of /, ''), cat: row, from, to, args: { run, error } },
});

/** How long the request and the reply took is known if the other task was traced too. */
function callSlice(
  { task, stage, from, to, run, sentBytes, receivedBytes, error }: TracedCall,
  arrow?: Arrow,
): Slice {
  const transfer = (what: string, size: number, span: Span): Slice => ({
    ...{
      name: size === 0 ? what : `${what} ${bytes(size)}`,
      cat: 'transfer',
      ...span,
      args: { bytes: size, task },
    },
  });
  const within = (time: number) => Math.min(to, Math.max(from, time));
  const sent = arrow && within(arrow.stage.from);
  const replied = arrow && Math.max(within(arrow.stage.to), sent as number);
  return {
    ...{ name: stage, cat: 'call', from, to },
    args: { task, run, sentBytes, receivedBytes, error },
    ...(arrow && {
      arrow: { ph: 's', id: arrow.id, ts: from },
      parts: [
        transfer('send', sentBytes, { from, to: sent as number }),
        transfer('receive', receivedBytes, { from: replied as number, to }),
      ],
    }),
  };
}

function stageSlice(traced: TracedStage, self: string, arrow?: Arrow): Slice {
  const { stage, caller, from, to, waitedFor, begun, error } = traced;
  const waited = waitedFor === undefined ? from : (traced.waited ?? to);
  const wait = (name: string, span: Span): Slice => ({ name, cat: 'wait', ...span, args: {} });
  return {
    ...{ name: stage, cat: 'stage', from, to },
    args: { caller: caller === self ? 'this task' : caller, error },
    ...(arrow && { arrow: { ph: 'f', id: arrow.id, ts: Math.max(from, arrow.call.from) } }),
    parts: [
      ...(waited > from ? [wait(`waits for ${waitedFor}`, { from, to: waited })] : []),
      ...(begun !== undefined && begun > waited
        ? [wait('waits for a thread', { from: waited, to: begun })]
        : []),
    ],
  };
}

function grouped<T>(all: readonly T[], keyOf: (one: T) => string): ReadonlyMap<string, readonly T[]> {
  const groups = new Map<string, T[]>();
  for (const one of all) {
    const key = keyOf(one);
    const group = groups.get(key) ?? [];
    groups.set(key, group);
    group.push(one);
  }
  return groups;
}
