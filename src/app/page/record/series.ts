/**
 * A curve in bounded memory: ten minutes of points per second, and before them at most a day with intervals that widen
 * as the day fills. A point is the mean of its interval; a finished point does not change.
 */
import type { CurvePoints } from '../state.js';

export interface SeriesPoint {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly step: number | null;
  readonly value: number;
  readonly count: number;
}

const SECOND_MS = 1000;
const MOST_RECENT = 600;
const MOST_OLDER = 720;
/** 720 intervals of 128 s are a little more than a day. */
const WIDEST_MS = 128_000;

export class Series {
  readonly #recent: SeriesPoint[] = [];
  #older: SeriesPoint[] = [];
  #widthMs = 2 * SECOND_MS;
  #open: SeriesPoint | undefined;

  /** Adds a value; those of one second become one point. Values that are no numbers are left out. */
  add(at: number, step: number | null, value: number): void {
    if (!Number.isFinite(value)) return;
    const open = this.#open;
    if (open && sameInterval(open.at, at, SECOND_MS)) {
      this.#open = joined(open, { at: open.at, step, value, count: 1 });
      return;
    }
    this.#close();
    this.#open = { at, step, value, count: 1 };
  }

  /** The finished points after a time. */
  since(time: number, now: number): readonly SeriesPoint[] {
    if (this.#open && !sameInterval(this.#open.at, now, SECOND_MS)) this.#close();
    const last = this.#recent.at(-1);
    if (last === undefined || last.at <= time) return [];
    return [...this.#older, ...this.#recent].filter(({ at }) => at > time);
  }

  #close(): void {
    if (this.#open) this.#recent.push(this.#open);
    this.#open = undefined;
    if (this.#recent.length > MOST_RECENT) this.#keepOlder(this.#recent.shift()!);
  }

  #keepOlder(point: SeriesPoint): void {
    fold(this.#older, point, this.#widthMs);
    if (this.#older.length <= MOST_OLDER) return;
    if (this.#widthMs >= WIDEST_MS) {
      this.#older.shift();
      return;
    }
    this.#widthMs *= 2;
    const wider: SeriesPoint[] = [];
    for (const one of this.#older) fold(wider, one, this.#widthMs);
    this.#older = wider;
  }
}

const sameInterval = (a: number, b: number, width: number): boolean =>
  Math.floor(a / width) === Math.floor(b / width);

function fold(points: SeriesPoint[], point: SeriesPoint, width: number): void {
  const last = points.at(-1);
  if (last && sameInterval(last.at, point.at, width)) points[points.length - 1] = joined(last, point);
  else points.push(point);
}

function joined(before: SeriesPoint, { step, value, count }: SeriesPoint): SeriesPoint {
  const total = before.count + count;
  const mean = before.value + ((value - before.value) * count) / total;
  return { at: before.at, step, value: mean, count: total };
}

/** Points up to this time are finished: `since` returns all of them, and no other one later. */
export const finishedUntil = (now: number): number => Math.floor(now / SECOND_MS) * SECOND_MS - 1;

/** The points as columns; values with the digits that a picture shows. */
export function columns(name: string, points: readonly SeriesPoint[]): CurvePoints {
  return {
    name,
    at: points.map(({ at }) => Math.round(at)),
    step: points.map(({ step }) => step),
    value: points.map(({ value }) => Number(value.toPrecision(5))),
  };
}
