/** Converts the trace of a run to the format of Chrome's trace viewer and Perfetto: device → process, thread → row. */
import type { NodeExecStats, StepStats } from '../../../base/proto/generated/config_pb.js';

export interface TraceEvent {
  readonly ph: 'X' | 'M';
  readonly pid: number;
  readonly tid: number;
  readonly name: string;
  readonly cat?: string;
  /** Microseconds since 1970. */
  readonly ts?: number;
  readonly dur?: number;
  readonly args: Readonly<Record<string, unknown>>;
}

export function chromeTrace(stats: StepStats): { readonly traceEvents: readonly TraceEvent[] } {
  const traceEvents = stats.devStats.flatMap(({ device, nodeStats, threadNames }, pid): TraceEvent[] => {
    const naming: TraceEvent = { ph: 'M', pid, tid: 0, name: 'process_name', args: { name: device } };
    const threads = Object.entries(threadNames).map(
      ([tid, name]): TraceEvent => ({ ph: 'M', pid, tid: Number(tid), name: 'thread_name', args: { name } }),
    );
    return [naming, ...threads, ...nodeStats.map((node) => nodeEvent(node, pid))];
  });
  return { traceEvents };
}

function nodeEvent(node: NodeExecStats, pid: number): TraceEvent {
  const { nodeName, timelineLabel, threadId } = node;
  // The label is `name = Type(inputs)`, or empty.
  const [, type, inputs] = /= (\w+)\((.*)\)/s.exec(timelineLabel) ?? [];
  const bytes = node.memory.reduce((sum, { totalBytes }) => sum + Number(totalBytes), 0);
  return {
    ph: 'X',
    pid,
    tid: threadId,
    name: type ?? nodeName.replace(/^.*\//, ''),
    cat: 'Op',
    ts: Number(node.allStartMicros),
    // The viewer does not show events of length 0.
    dur: Math.max(1, Number(node.allEndRelMicros)),
    args: {
      name: nodeName,
      ...(inputs ? { inputs: inputs.split(', ') } : {}),
      ...(bytes > 0 ? { bytes } : {}),
    },
  };
}
