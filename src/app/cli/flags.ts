/** Flag declarations and parsers that several commands share. */
import { LOG_LEVELS } from '../../base/text/log.js';

export const integer = (min: number, max: number) => (input: string) => {
  const value = /^\d+$/.test(input) ? Number(input) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new RangeError(`expected an integer from ${min} to ${max}`);
};

export const optionalText = (brief: string, placeholder: string) =>
  ({ kind: 'parsed', parse: String, brief, placeholder, optional: true }) as const;

/** A boolean flag that is off by default and has no `--no-` form. */
export const switchFlag = (brief: string) =>
  ({ kind: 'boolean', default: false, brief, withNegated: false }) as const;

export const LOG_LEVEL_FLAG = {
  kind: 'enum',
  values: LOG_LEVELS,
  optional: true,
  brief: 'Print log lines of at least this level; default: SHOAL_LOG_LEVEL, else info',
} as const;

export const JSON_FLAG = switchFlag('Print as JSON');

/** Settings of a job, for one run. */
export const JOB_FLAGS = {
  lastStep: {
    kind: 'parsed',
    parse: integer(0, Number.MAX_SAFE_INTEGER),
    optional: true,
    placeholder: 'n',
    brief: 'Train until this step; default: train.lastStep of the job',
  },
  set: {
    kind: 'parsed',
    parse: String,
    variadic: true,
    optional: true,
    placeholder: 'name=value',
    brief: 'Set a parameter that the job declares in `params`; repeat it for several',
  },
} as const;
