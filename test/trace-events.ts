/** Checks a trace against the trace event format, more strictly than viewers do; returns its slices by process and row. */
import type { ChromeEvent } from '../src/app/cli/trace/chrome-file.js';

export interface TraceSlice {
  readonly process: string;
  readonly row: string;
  readonly name: string;
  readonly cat: string;
  readonly from: number;
  readonly to: number;
  /** Undefined: it is not inside another slice of its row. */
  readonly inside: TraceSlice | undefined;
  readonly args: Readonly<Record<string, unknown>>;
}

export interface CheckedTrace {
  readonly slices: readonly TraceSlice[];
  /** The slices at both ends of each arrow. */
  readonly arrows: readonly (readonly [TraceSlice, TraceSlice])[];
}

const KEYS: Readonly<Record<ChromeEvent['ph'], readonly string[]>> = {
  M: ['ph', 'pid', 'tid', 'name', 'args'],
  X: ['ph', 'pid', 'tid', 'name', 'cat', 'ts', 'dur', 'args'],
  s: ['ph', 'pid', 'tid', 'name', 'cat', 'ts', 'id'],
  f: ['ph', 'pid', 'tid', 'name', 'cat', 'ts', 'id', 'bp'],
};

export function checkTrace(events: readonly ChromeEvent[]): CheckedTrace {
  const titles = new Map<string, string>();
  const slices: TraceSlice[] = [];
  const open = new Map<string, TraceSlice[]>();
  for (const event of events) {
    const { ph, pid, tid, name, ts, dur, cat = '', args = {} } = event;
    const wrong = (why: string) => new Error(`${why}: ${JSON.stringify(event)}`);
    if (
      Object.keys(event).some((key) => !KEYS[ph]?.includes(key)) ||
      KEYS[ph].length > Object.keys(event).length
    )
      throw wrong('an event has other fields');
    if (!isCount(pid) || !isCount(tid) || typeof name !== 'string' || name === '') throw wrong('no place');
    if (ph === 'M') {
      if (/^(process|thread)_name$/.test(name)) titles.set(`${pid} ${tid}`, String(args.name));
      continue;
    }
    if (!isCount(ts)) throw wrong('no time');
    if (ph !== 'X') continue;
    if (!isCount(dur)) throw wrong('no duration');
    const [process, row] = [titles.get(`${pid} 0`), titles.get(`${pid} ${tid}`)];
    if (process === undefined || row === undefined) throw wrong('a process or a row without a name');
    const parents = open.get(`${pid} ${tid}`) ?? [];
    open.set(`${pid} ${tid}`, parents);
    const to = ts + dur;
    while (parents.length > 0 && parents.at(-1)!.to <= ts && parents.at(-1)!.to < to) parents.pop();
    const inside = parents.findLast((one) => one.from <= ts && to <= one.to);
    const before = slices.findLast((one) => one.process === process && one.row === row);
    if (before && ts < before.from) throw wrong('earlier than the slice before it in its row');
    if (parents.some((one) => one.from < to && ts < one.to && !(one.from <= ts && to <= one.to)))
      throw wrong('overlaps another slice of its row');
    const slice = { process, row, name, cat, from: ts, to, inside, args };
    parents.push(slice);
    slices.push(slice);
  }
  return { slices, arrows: arrowsOf(events, slices, titles) };
}

function arrowsOf(
  events: readonly ChromeEvent[],
  slices: readonly TraceSlice[],
  titles: ReadonlyMap<string, string>,
): CheckedTrace['arrows'] {
  const ends = new Map<number, ChromeEvent[]>();
  for (const event of events)
    if (event.ph === 's' || event.ph === 'f') ends.set(event.id!, [...(ends.get(event.id!) ?? []), event]);
  return [...ends].map(([id, both]) => {
    const begin = both.filter(({ ph }) => ph === 's');
    const end = both.filter(({ ph }) => ph === 'f');
    if (begin.length !== 1 || end.length !== 1) throw new Error(`arrow ${id} does not have two ends`);
    if (end[0]!.ts! < begin[0]!.ts!) throw new Error(`arrow ${id} ends before it begins`);
    const at = ({ pid, tid, ts = 0 }: ChromeEvent) => {
      const [process, row] = [titles.get(`${pid} 0`), titles.get(`${pid} ${tid}`)];
      const found = slices.find(
        (one) => one.process === process && one.row === row && one.from <= ts && ts <= one.to && !one.inside,
      );
      if (!found) throw new Error(`no slice at an end of arrow ${id}`);
      return found;
    };
    return [at(begin[0]!), at(end[0]!)] as const;
  });
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
