/** The trials of a sweep: all combinations of the values of its parameters, or a random choice of them. */
import { createHash } from 'node:crypto';
import { ShoalError } from '../../../base/errors/errors.js';
import type { JobDefinition, JobParams } from '../definition/define-job.js';
import { overrideJob } from '../definition/override-job.js';

export interface Trial {
  /** `rate=0.1+dim=8`: its name, and that of its directory. */
  readonly name: string;
  /** Assignments for `--set`. */
  readonly set: readonly string[];
  /** The parameters that the sweep sets. */
  readonly params: JobParams;
  /** All parameters of the job. */
  readonly allParams: JobParams;
}

export interface RandomChoice {
  readonly count: number;
  readonly seed: number;
}

const MAX_TRIALS = 10_000;
/** File systems allow 255 bytes. */
const MAX_NAME = 180;

/** `set` has assignments such as `rate=0.01,0.1`. Throws if one of them is wrong. */
export function trialsOf(
  job: JobDefinition,
  set: readonly string[],
  random?: RandomChoice,
): readonly Trial[] {
  if (set.length === 0)
    throw invalidSweep('a sweep needs values to try', 'write --set rate=0.01,0.1 for each parameter');
  const axes = set.map((assignment) => axisOf(job, assignment));
  const names = axes.map(({ name }) => name);
  const repeated = names.find((name, i) => names.indexOf(name) !== i);
  if (repeated !== undefined)
    throw invalidSweep(
      `--set ${repeated} is there twice`,
      `write all its values in one: --set ${repeated}=a,b`,
    );
  const size = axes.reduce((product, { texts }) => product * texts.length, 1);
  if (size > MAX_TRIALS && !random)
    throw invalidSweep(`the sweep has ${size} trials, more than ${MAX_TRIALS}`, 'choose some with --random');
  const chosen = random ? choose(size, random) : Array.from({ length: size }, (_, i) => i);
  return chosen.map((index) => trialAt(job, axes, index));
}

interface Axis {
  readonly name: string;
  readonly texts: readonly string[];
}

function axisOf(job: JobDefinition, assignment: string): Axis {
  const at = assignment.indexOf('=');
  const name = assignment.slice(0, at);
  // A comma that is part of a value is written \,
  const texts = assignment
    .slice(at + 1)
    .split(/(?<!\\),/)
    .map((text) => text.replaceAll('\\,', ',').trim());
  if (at < 1 || texts.some((text) => text === ''))
    throw invalidSweep(
      `--set ${assignment} ${at < 1 || texts.length === 1 ? 'has no values' : 'has an empty value'}`,
      'write --set name=value,value',
    );
  const values = texts.map((text) => overrideJob(job, { set: [`${name}=${text}`] }).params?.[name]);
  const again = values.findIndex((value, i) => values.indexOf(value) !== i);
  if (again >= 0)
    throw invalidSweep(`--set ${assignment} has the value ${texts[again]} twice`, 'write each value once');
  return { name, texts };
}

/** The first axis changes slowest. */
function trialAt(job: JobDefinition, axes: readonly Axis[], index: number): Trial {
  let rest = index;
  const set = axes
    .toReversed()
    .map(({ name, texts }) => {
      const text = texts[rest % texts.length];
      rest = Math.floor(rest / texts.length);
      return `${name}=${text}`;
    })
    .toReversed();
  const allParams = overrideJob(job, { set }).params ?? {};
  const params = Object.fromEntries(axes.map(({ name }) => [name, allParams[name]!]));
  return { name: nameOf(params), set, params, allParams };
}

/** Readable, and safe as the name of a directory. Not with commas: lists of directories are separated by them. */
function nameOf(params: JobParams): string {
  const exact = Object.entries(params)
    .map(([name, value]) => `${name}=${value}`)
    .join('+');
  const safe = exact.replace(/[^\w.=+-]/g, '_').slice(0, MAX_NAME);
  if (safe === exact && !safe.startsWith('.')) return safe;
  return `${safe}-${createHash('sha256').update(exact).digest('hex').slice(0, 8)}`;
}

/** So many different numbers below `size`, in ascending order; the same ones for the same seed. */
function choose(size: number, { count, seed }: RandomChoice): readonly number[] {
  const next = generator(seed);
  const chosen = new Set<number>();
  // Floyd's method: each subset is equally likely, and no list of all numbers is made.
  for (let i = Math.max(0, size - count); i < size; i++) {
    const pick = Math.floor(next() * (i + 1));
    chosen.add(chosen.has(pick) ? i : pick);
  }
  return [...chosen].sort((a, b) => a - b);
}

/** Mulberry32: numbers in [0, 1). */
function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

export const invalidSweep = (message: string, hint: string): ShoalError =>
  new ShoalError('SHOAL_CONFIG', message, { hint });
