/** The lines of charts: their points by the chosen axis, their colors, and which are shown. */
import { signal } from '@preact/signals';
import { axis, smoothing } from './settings.js';
import { curves, type KnownCurve, state } from './store.js';

const COLORS = {
  light: ['#0b57d0', '#b3261e', '#146c2e', '#7d4f00', '#7b1fa2', '#00696f', '#9c2a6b', '#4b5563'],
  dark: ['#8ab4ff', '#ff9a90', '#7ddc93', '#f0c060', '#d8a5ff', '#62d5dc', '#ff9fd0', '#c3c9d3'],
};
/** Further lines have the same colors, and dashes. */
const DASHES: readonly (number[] | undefined)[] = [undefined, [7, 4], [2, 3], [10, 3, 2, 3]];

export interface ChartLine {
  readonly task: string;
  readonly x: readonly number[];
  readonly y: readonly number[];
}

/** Of several runs, those without lines. */
export const hiddenRuns = signal<ReadonlySet<string>>(new Set());

export const isOfRun = (task: string, run: string): boolean => task === run || task.startsWith(`${run}: `);

/** With several runs a task has one color in all charts. */
const orderOf = (task: string): number =>
  Math.max(
    0,
    state.value!.tasks.findIndex((one) => one.task === task),
  );

export const colorAt = (index: number, isDark: boolean): string => {
  const colors = COLORS[isDark ? 'dark' : 'light'];
  return colors[index % colors.length]!;
};

export const colorOf = (task: string, isDark: boolean): string => colorAt(orderOf(task), isDark);

export const dashAt = (index: number): number[] | undefined =>
  DASHES[Math.floor(index / COLORS.light.length) % DASHES.length];

/** The position of a line in the colors: that in its chart, or with several runs that of its task. */
export const colorIndex = (line: ChartLine, i: number): number =>
  state.value!.runs.length > 0 ? orderOf(line.task) : i;

export function chartLines(name: string): readonly ChartLine[] {
  const hidden = [...hiddenRuns.value];
  return [...(curves.get(name) ?? [])]
    .filter(([task]) => !hidden.some((run) => isOfRun(task, run)))
    .sort(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }))
    .map(([task, curve]) => lineOf(task, curve));
}

export function lineOf(task: string, { at, step, value }: KnownCurve): ChartLine {
  const y = smooth(value, smoothing.value);
  if (axis.value === 'time') return { task, x: at.map((ms) => ms / 1000), y };
  if (axis.value === 'since') {
    const start = beginOf(task);
    return { task, x: at.map((ms) => (ms - start) / 1000), y };
  }
  // After a restore a step is made again: the x axis must rise.
  const points: [number, number][] = [];
  step.forEach((one, i) => {
    if (one === null) return;
    while (points.length > 0 && points.at(-1)![0] >= one) points.pop();
    points.push([one, y[i]!]);
  });
  return { task, x: points.map(([x]) => x), y: points.map(([, one]) => one) };
}

/** The first point of all curves of a task. */
function beginOf(task: string): number {
  let first = Number.POSITIVE_INFINITY;
  for (const byTask of curves.values()) first = Math.min(first, byTask.get(task)?.at[0] ?? first);
  return first;
}

/** An exponential average without the bias of its start. */
function smooth(values: readonly number[], weight: number): readonly number[] {
  if (weight === 0) return values;
  let [sum, total] = [0, 0];
  return values.map((value) => {
    sum = sum * weight + value * (1 - weight);
    total = total * weight + (1 - weight);
    return sum / total;
  });
}
