/** What a save did to the steps beside it, from the times of single steps. */
import { median } from '../harness.js';
import type { Trained } from './tasks.js';

export interface SaveWindow {
  readonly saveMs: number;
  /** The sum over the steps during the save, and a while after it, of their time beyond the median of all. */
  readonly blockedMs: number;
  /** The same sum over as long a time without a save: what of it is the machine's own unrest. */
  readonly unrestMs: number;
  /** For how long steps were told to rest: what of it the save does on purpose. */
  readonly restMs: number;
  /** Training time that went amiss: how much longer the steps took than as many quiet ones. */
  readonly lostMs: number;
}

/** Looks at training with one save in it. */
export function saveWindow({ ends, times, saves, rests }: Trained): SaveWindow {
  const [start, end] = saves[0] as readonly [number, number];
  const usual = median(times);
  const quiet: number[] = [];
  const beside: number[] = [];
  ends.forEach((at, i) => {
    (at <= start ? quiet : beside).push(times[i] as number);
  });
  const beyond = (list: readonly number[]): number => list.reduce((sum, time) => sum + time - usual, 0);
  const windowMs = (ends.at(-1) ?? end) - start;
  const quietMs = sum(quiet);
  return {
    saveMs: end - start,
    blockedMs: beyond(beside),
    unrestMs: (beyond(quiet) / quietMs) * windowMs,
    restMs: rests[0] ?? 0,
    lostMs: windowMs - beside.length * (quietMs / quiet.length),
  };
}

/** Saves now and then in a long training: the part of the time that they cost, measured against the time between. */
export function overhead({ ends, times, saves }: Trained): number {
  const isBeside = (at: number, time: number) => saves.some(([start, end]) => at > start && at - time < end);
  const quiet = times.filter((time, i) => !isBeside(ends[i] as number, time));
  const beside = times.filter((time, i) => isBeside(ends[i] as number, time));
  const lost = sum(beside) - beside.length * (sum(quiet) / quiet.length);
  return lost / (sum(quiet) + sum(beside));
}

const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
