/** The state of the page: fetched once, then kept current by server-sent events. */
import { computed, signal } from '@preact/signals';
import type { CurvePoints, PageEvent, PageState, TaskState } from '../state.js';

export type ConnectionState = 'connecting' | 'live' | 'lost' | 'finished';

export const state = signal<PageState | undefined>(undefined);
export const connection = signal<ConnectionState>('connecting');
/** The time of this page when the last state came. */
export const receivedAt = signal(0);
/** The time of this page; changes every second, for ages. */
export const clock = signal(Date.now());

export interface KnownCurve {
  at: number[];
  step: (number | null)[];
  value: number[];
}
/** Curves by name and task. They change in place: `curvesVersion` says when. */
export const curves = new Map<string, Map<string, KnownCurve>>();
export const curvesVersion = signal(0);
export const events = signal<readonly PageEvent[]>([]);

export const ageMs = computed(() =>
  receivedAt.value === 0 ? 0 : Math.max(0, clock.value - receivedAt.value),
);

const MOST_EVENTS = 500;
const MOST_POINTS = 4000;
const RETRY_MS = 1000;
const FILES_MS = 10_000;
/** Beats come every second; a connection may be open and dead. */
const SILENT_MS = 6000;

let stream: EventSource | undefined;

export function start(): void {
  setInterval(() => {
    clock.value = Date.now();
    const limit = Math.max(SILENT_MS, 3 * (state.value?.everyMs ?? 0));
    if (connection.value === 'live' && ageMs.value > limit) reconnect();
  }, 1000);
  void load();
}

async function load(): Promise<void> {
  try {
    const known = connection.value === 'finished' ? `?after=${state.value?.cursor}` : '';
    const response = await fetch(`/page/state${known}`, { signal: AbortSignal.timeout(10_000) });
    if (response.status === 204) return void followFiles();
    // The login has expired.
    if (response.status === 401) return void location.reload();
    if (!response.ok) throw new Error(String(response.status));
    const next = (await response.json()) as PageState;
    curves.clear();
    take(next, next.events);
    if (next.live) return void listen(next.cursor);
    connection.value = 'finished';
    followFiles();
  } catch {
    lose();
    setTimeout(() => void load(), RETRY_MS);
  }
}

/** A job in one process may still write its files. */
function followFiles(): void {
  receivedAt.value = Date.now();
  setTimeout(() => void load(), FILES_MS);
}

function listen(after: number): void {
  stream?.close();
  const source = new EventSource(`/page/events?after=${after}`);
  stream = source;
  source.onopen = () => {
    connection.value = 'live';
  };
  source.onmessage = ({ data }: MessageEvent<string>) => {
    const update = JSON.parse(data) as PageState;
    connection.value = 'live';
    take(update, [...events.value, ...update.events]);
  };
  source.addEventListener('stale', () => reconnect());
  source.onerror = () => reconnect();
}

/** The server may be another process by now: the whole state is asked for. */
function reconnect(): void {
  stream?.close();
  stream = undefined;
  lose();
  setTimeout(() => void load(), RETRY_MS);
}

function lose(): void {
  connection.value = state.value === undefined ? 'connecting' : 'lost';
}

function take(next: PageState, all: readonly PageEvent[]): void {
  for (const task of next.tasks) for (const curve of task.curves) extend(task, curve);
  const byId = new Map(all.map((event) => [event.id, event]));
  events.value = [...byId.values()].sort((a, b) => a.at - b.at).slice(-MOST_EVENTS);
  state.value = next;
  receivedAt.value = Date.now();
  clock.value = Date.now();
  curvesVersion.value += 1;
}

function extend({ task }: TaskState, { name, at, step, value }: CurvePoints): void {
  const byTask = curves.get(name) ?? new Map<string, KnownCurve>();
  curves.set(name, byTask);
  const curve = byTask.get(task) ?? { at: [], step: [], value: [] };
  byTask.set(task, curve);
  const last = curve.at.at(-1) ?? Number.NEGATIVE_INFINITY;
  for (let i = 0; i < at.length; i++) {
    if (at[i]! <= last) continue;
    curve.at.push(at[i]!);
    curve.step.push(step[i]!);
    curve.value.push(value[i]!);
  }
  const excess = curve.at.length - MOST_POINTS;
  if (excess > 0) for (const column of [curve.at, curve.step, curve.value]) column.splice(0, excess);
}
