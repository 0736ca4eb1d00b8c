/** Writes and reads events as lines of JSON. */
import type { JobEvent, JobEventData, JobEventHeader } from './job-event.js';
import { isAtLeast, type Log, type LogLevel } from './log.js';

/** A log that makes an event of each line. The level drops only lines without data. */
export function eventLog(take: (event: JobEvent) => void, task: string, least: LogLevel = 'info'): Log {
  return (message, level = 'info', data = { event: 'log' }) => {
    if (data.event !== 'log' || isAtLeast(level, least)) take(eventOf(data, { task, level, message }));
  };
}

export function eventOf(data: JobEventData, header: Omit<JobEventHeader, 'time'>): JobEvent {
  const { event, ...fields } = data;
  return { event, time: new Date().toISOString(), ...header, ...fields } as JobEvent;
}

/** The event as a line of JSON. */
export const eventLine = (event: JobEvent): string => JSON.stringify(event, asJson);

/** Replaces values that JSON does not have. */
export function asJson(_key: string, value: unknown): unknown {
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  if (typeof value !== 'bigint') return value;
  return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
}

/** The number that `asJson` has replaced by a string; undefined if the value is none. */
export function jsonNumber(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  return typeof value === 'string' && /^(NaN|-?Infinity)$/.test(value) ? Number(value) : undefined;
}

/** The event that `eventLine` has written; undefined for any other line. Its numbers may be strings. */
export function parseEventLine(line: string): JobEvent | undefined {
  if (!line.startsWith('{"event":"')) return undefined;
  try {
    const { time, task, message } = JSON.parse(line) as Partial<JobEvent>;
    const isEvent = [time, task, message].every((field) => typeof field === 'string');
    return isEvent ? (JSON.parse(line) as JobEvent) : undefined;
  } catch {
    return undefined;
  }
}
