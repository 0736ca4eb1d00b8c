/** What the log lines of a task say about its history. */
import type { HistoryEvent } from './history.js';

type Without<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;

/** An event that a task itself reports, in a line `event {…}` (lab/programs/observe.ts). */
export type TaskEvent = Without<
  Extract<HistoryEvent, { readonly type: 'begun' | 'committed' | 'back' | 'ran' }>,
  'at' | 'process'
>;

export type LoggedEvent =
  | TaskEvent
  | Without<Extract<HistoryEvent, { readonly type: 'saved' | 'restored' | 'step' }>, 'at' | 'process'>;

const LINES = [
  ['step', /^step (\d+) of/],
  ['saved', /^saved .*model\.ckpt-(\d+)/],
  ['restored', /restored model\.ckpt-(\d+) \(/],
] as const;

/** The event that a line reports; undefined for other lines. */
export function eventIn(line: string): LoggedEvent | undefined {
  if (line.startsWith('event {')) return JSON.parse(line.slice('event '.length)) as TaskEvent;
  for (const [type, pattern] of LINES) {
    const step = pattern.exec(line)?.[1];
    if (step !== undefined) return { type, step: Number(step) };
  }
  return undefined;
}
