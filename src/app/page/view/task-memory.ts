/** What a task that serves the page remembers of another one: its last report, its curves, its events. */
import type { CurvePoints, PageEvent, TaskNumbers, TaskReport } from '../state.js';

const MOST_POINTS = 1500;
const MOST_EVENTS = 500;

interface Curve {
  at: number[];
  step: (number | null)[];
  value: number[];
}

export class TaskMemory {
  readonly #curves = new Map<string, Curve>();
  readonly #events = new Map<string, PageEvent>();
  #report: TaskReport | undefined;
  #heardAt = 0;
  #fresh: readonly CurvePoints[] = [];

  get report(): TaskReport | undefined {
    return this.#report;
  }

  /** When it reported, by `performance.now`. */
  get heardAt(): number {
    return this.#heardAt;
  }

  /** Up to where its curves are known, for a process of this incarnation. */
  since(incarnation: number): number {
    return this.#report?.incarnation === incarnation ? this.#report.until : 0;
  }

  add(report: TaskReport): void {
    this.#report = report;
    this.#heardAt = performance.now();
    this.#fresh = report.curves;
    for (const curve of report.curves) this.#extend(curve);
    for (const event of report.events) this.#events.set(event.id, event);
    for (const id of this.#events.keys()) {
      if (this.#events.size <= MOST_EVENTS) break;
      this.#events.delete(id);
    }
  }

  /** It did not answer. */
  missed(): void {
    this.#fresh = [];
  }

  #extend({ name, at, step, value }: CurvePoints): void {
    const curve = this.#curves.get(name) ?? { at: [], step: [], value: [] };
    this.#curves.set(name, curve);
    curve.at.push(...at);
    curve.step.push(...step);
    curve.value.push(...value);
    if (curve.at.length <= MOST_POINTS) return;
    // Of the older half every other point goes.
    const half = MOST_POINTS >> 1;
    const keep = (_: unknown, i: number) => i >= half || i % 2 === 0;
    this.#curves.set(name, {
      at: curve.at.filter(keep),
      step: curve.step.filter(keep),
      value: curve.value.filter(keep),
    });
  }

  get curveCount(): number {
    return this.#curves.size;
  }

  /** All curves; of one with more points than `most`, the newest half of these, and of the older ones some. */
  curves(most: number): readonly CurvePoints[] {
    return [...this.#curves].map(([name, curve]) => thinned({ name, ...curve }, most));
  }

  /** The points of the last report. */
  get fresh(): readonly CurvePoints[] {
    return this.#fresh;
  }

  events(): Iterable<PageEvent> {
    return this.#events.values();
  }

  numbers(): TaskNumbers | null {
    if (!this.#report) return null;
    const { curves, events, files, exports, input, configuration, ...numbers } = this.#report;
    return numbers;
  }
}

function thinned({ name, at, step, value }: CurvePoints, most: number): CurvePoints {
  if (at.length <= most) return { name, at, step, value };
  const recent = at.length - (most >> 1);
  const every = Math.ceil(recent / (most - (most >> 1)));
  const keep = (_: unknown, i: number) => i >= recent || i % every === 0;
  return { name, at: at.filter(keep), step: step.filter(keep), value: value.filter(keep) };
}
