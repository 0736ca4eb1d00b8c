/** A strict parser of Prometheus' text format 0.0.4: it refuses what a scraper might tolerate. */

export interface Family {
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  /** By name and labels as written, for example `shoal_members{status="alive"}`. */
  readonly samples: Map<string, number>;
}

const NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*';
const LABEL = '[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\["\\\\n])*"';
const SAMPLE = new RegExp(`^(${NAME})(?:\\{(${LABEL}(?:,${LABEL})*)\\})? (\\S+)$`);
const VALUE = /^(?:[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?|NaN|[+-]Inf)$/;

export function parseMetrics(text: string): Map<string, Family> {
  if (!text.endsWith('\n')) throw new Error('The last line does not end');
  const families = new Map<string, Family>();
  const lines = text.slice(0, -1).split('\n');
  for (let i = 0; i < lines.length; ) {
    const [, name, help] =
      new RegExp(`^# HELP (${NAME}) (\\S.*)$`).exec(lines[i++]!) ?? fail(lines[i - 1], 'HELP');
    const [, typed, type] =
      new RegExp(`^# TYPE (${NAME}) (counter|gauge|histogram)$`).exec(lines[i++] ?? '') ??
      fail(lines[i - 1], 'TYPE');
    if (typed !== name) throw new Error(`HELP of ${name}, but TYPE of ${typed}`);
    if (families.has(name!)) throw new Error(`${name} appears twice`);
    if ((type === 'counter') !== name!.endsWith('_total')) throw new Error(`${name} is a ${type}`);
    const samples = new Map<string, number>();
    while (i < lines.length && !lines[i]!.startsWith('#')) {
      const [, sample, labels, value] = SAMPLE.exec(lines[i]!) ?? fail(lines[i], 'sample');
      const suffix = sample!.slice(name!.length);
      const isOwn =
        sample!.startsWith(name!) &&
        (type === 'histogram' ? /^_(bucket|sum|count)$/.test(suffix) : suffix === '');
      if (!isOwn) throw new Error(`${sample} is not a sample of ${name}`);
      if (!VALUE.test(value!)) throw new Error(`${value} is not a value`);
      const labelNames = (labels ?? '').match(/\w+(?==")/g) ?? [];
      if (new Set(labelNames).size < labelNames.length) throw new Error(`A label twice: ${lines[i]}`);
      const key = `${sample}${labels ? `{${labels}}` : ''}`;
      if (samples.has(key)) throw new Error(`${key} appears twice`);
      samples.set(key, Number(value!.replace('Inf', 'Infinity')));
      i++;
    }
    if (type === 'histogram') checkHistogram(name!, samples);
    families.set(name!, { type: type as Family['type'], help: help!, samples });
  }
  return families;
}

function checkHistogram(name: string, samples: ReadonlyMap<string, number>): void {
  const buckets = [...samples]
    .filter(([key]) => key.startsWith(`${name}_bucket`))
    .map(([key, count]) => ({ le: Number(/le="([^"]+)"/.exec(key)![1]!.replace('Inf', 'Infinity')), count }));
  if (buckets.at(-1)?.le !== Number.POSITIVE_INFINITY) throw new Error(`${name} has no bucket +Inf`);
  for (const [i, { le, count }] of buckets.entries()) {
    const before = buckets[i - 1];
    if (before && (before.le >= le || before.count > count)) throw new Error(`${name}: bucket ${le}`);
  }
  if (samples.get(`${name}_count`) !== buckets.at(-1)!.count) throw new Error(`${name}_count`);
  if (!samples.has(`${name}_sum`)) throw new Error(`${name} has no sum`);
}

function fail(line: string | undefined, expected: string): never {
  throw new Error(`Expected ${expected}: ${line}`);
}
