/** Log levels. A line of level info is written as it is; others begin with their level: `WARN /job:ps/task:1 is lost`. */
import { ShoalError } from '../errors/errors.js';
import type { JobEventData } from './job-event.js';

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Receives log lines, and what some of them report as data; default level: info. */
export type Log = (line: string, level?: LogLevel, data?: JobEventData) => void;

/** Writes lines of at least this level. */
export function leveled(write: (line: string) => void, least: LogLevel): Log {
  return (line, level = 'info') => {
    if (!isAtLeast(level, least)) return;
    write(level === 'info' ? line : `${level.toUpperCase()} ${line}`);
  };
}

/** The log of programs that pass none: standard error, lines of at least the level SHOAL_LOG_LEVEL. */
export const defaultLog = (env: Readonly<Record<string, string | undefined>> = process.env): Log =>
  leveled((line) => console.error(line), logLevelOf(env));

export const isAtLeast = (level: LogLevel, least: LogLevel): boolean =>
  LOG_LEVELS.indexOf(level) >= LOG_LEVELS.indexOf(least);

/**
 * The level and the message of a line that `leveled` wrote. An indented line, such as a hint or a stack frame, continues
 * the line before and has its level.
 */
export function splitLevel(
  line: string,
  before: LogLevel = 'info',
): { readonly level: LogLevel; readonly message: string } {
  const [, tag, message = ''] = /^(DEBUG|WARN|ERROR) (.*)$/s.exec(line) ?? [];
  return tag === undefined
    ? { level: line.startsWith('  ') ? before : 'info', message: line }
    : { level: tag.toLowerCase() as LogLevel, message };
}

/** The level of SHOAL_LOG_LEVEL; default: info. */
export function logLevelOf(env: Readonly<Record<string, string | undefined>>): LogLevel {
  const given = env.SHOAL_LOG_LEVEL || 'info';
  const found = LOG_LEVELS.find((level) => level === given);
  if (found !== undefined) return found;
  throw new ShoalError('SHOAL_CONFIG', `SHOAL_LOG_LEVEL: ${JSON.stringify(given)} is not a log level`, {
    hint: `the levels are ${LOG_LEVELS.join(', ')}`,
  });
}
