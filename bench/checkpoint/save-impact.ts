/** How much a save slows down concurrent training, from the times of single steps. */
import { median } from '../harness.js';
import type { StepTimes } from './task-pair.js';

export interface SaveImpact {
  readonly saveMs: number;
  /** By how much the steps during the save and shortly after it exceed the median step, summed up. */
  readonly blockedMs: number;
  /** The same sum over as long a time without a save: the part that is noise of the machine. */
  readonly noiseMs: number;
  /** For how long the save paused the steps: the intended part. */
  readonly pauseMs: number;
  /** Lost training time: how much longer the steps took than as many steps without a save. */
  readonly lostMs: number;
}

/** The impact of the only save in the steps. */
export function saveImpact({ ends, times, saves, pauses }: StepTimes): SaveImpact {
  const [start, end] = saves[0] as readonly [number, number];
  const usual = median(times);
  const quiet: number[] = [];
  const during: number[] = [];
  ends.forEach((at, i) => {
    (at <= start ? quiet : during).push(times[i] as number);
  });
  const excess = (list: readonly number[]): number => list.reduce((sum, time) => sum + time - usual, 0);
  const windowMs = (ends.at(-1) ?? end) - start;
  const quietMs = sum(quiet);
  return {
    saveMs: end - start,
    blockedMs: excess(during),
    noiseMs: (excess(quiet) / quietMs) * windowMs,
    pauseMs: pauses[0] ?? 0,
    lostMs: windowMs - during.length * (quietMs / quiet.length),
  };
}

/** The share of the training time that saves cost, measured against the steps between them. */
export function overhead({ ends, times, saves }: StepTimes): number {
  const isDuringSave = (at: number, time: number) =>
    saves.some(([start, end]) => at > start && at - time < end);
  const quiet = times.filter((time, i) => !isDuringSave(ends[i] as number, time));
  const during = times.filter((time, i) => isDuringSave(ends[i] as number, time));
  const lost = sum(during) - during.length * (sum(quiet) / quiet.length);
  return lost / (sum(quiet) + sum(during));
}

const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
