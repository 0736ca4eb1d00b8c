/**
 * The metrics of a process and their text format, Prometheus 0.0.4. Recording a value is an addition to a number;
 * everything else happens when the metrics are read.
 */
import { invalid } from '../errors/errors.js';

export type MetricLabels = Readonly<Record<string, string>>;

export interface MetricSample {
  readonly labels?: MetricLabels;
  readonly value: number;
}

/** Read when the metrics are; undefined: there is no value now. */
export type MetricReader = () => number | undefined | readonly MetricSample[];

/** A value that only increases. */
export class Counter {
  #value = 0;

  get value(): number {
    return this.#value;
  }

  add(amount = 1): void {
    this.#value += amount;
  }
}

export class Gauge {
  #value = 0;

  get value(): number {
    return this.#value;
  }

  set(value: number): void {
    this.#value = value;
  }
}

/** Counts values by size: bucket i has those that are at most `bounds[i]` and above the bound before. */
export class Histogram {
  readonly bounds: readonly number[];
  readonly #counts: number[];
  #sum = 0;
  #count = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.#counts = bounds.map(() => 0);
  }

  get count(): number {
    return this.#count;
  }

  get sum(): number {
    return this.#sum;
  }

  observe(value: number): void {
    this.#sum += value;
    this.#count += 1;
    for (let i = 0; i < this.bounds.length; i++) {
      if (value > this.bounds[i]!) continue;
      this.#counts[i]! += 1;
      return;
    }
  }

  /** The samples of the text format: the counts of buckets include those of smaller ones. */
  lines(name: string, labels: MetricLabels = {}): string[] {
    let below = 0;
    const buckets = this.bounds.map((bound, i) => {
      below += this.#counts[i]!;
      return sampleLine(`${name}_bucket`, below, { ...labels, le: numberText(bound) });
    });
    return [
      ...buckets,
      sampleLine(`${name}_bucket`, this.#count, { ...labels, le: '+Inf' }),
      sampleLine(`${name}_sum`, this.#sum, labels),
      sampleLine(`${name}_count`, this.#count, labels),
    ];
  }
}

export interface MetricFamily {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
}

interface Family extends Omit<MetricFamily, 'name'> {
  readonly lines: () => readonly string[];
}

/** The metrics of one task, by name, in the order in which they were added. */
export class Metrics {
  readonly #families = new Map<string, Family>();

  /** `name` ends in `_total`. */
  counter(name: string, help: string): Counter {
    const counter = new Counter();
    this.readCounter(name, help, () => counter.value);
    return counter;
  }

  gauge(name: string, help: string): Gauge {
    const gauge = new Gauge();
    this.readGauge(name, help, () => gauge.value);
    return gauge;
  }

  histogram(name: string, help: string, bounds: readonly number[]): Histogram {
    const histogram = new Histogram(bounds);
    this.#add(name, { type: 'histogram', help, lines: () => histogram.lines(name) });
    return histogram;
  }

  /** A counter whose value is kept elsewhere. */
  readCounter(name: string, help: string, read: MetricReader): void {
    if (!name.endsWith('_total')) throw invalid(`The name of a counter ends in _total; it is ${name}`);
    this.#add(name, { type: 'counter', help, lines: () => linesOf(name, read()) });
  }

  /** A gauge whose value is kept elsewhere. */
  readGauge(name: string, help: string, read: MetricReader): void {
    this.#add(name, { type: 'gauge', help, lines: () => linesOf(name, read()) });
  }

  #add(name: string, family: Family): void {
    if (!/^[a-z_][a-z0-9_]*$/.test(name)) throw invalid(`'${name}' is not the name of a metric`);
    if (this.#families.has(name)) throw invalid(`There are two metrics ${name}`);
    this.#families.set(name, family);
  }

  /** What there is, in the order in which it was added. */
  get families(): readonly MetricFamily[] {
    return [...this.#families].map(([name, { type, help }]) => ({ name, type, help }));
  }

  /** All metrics in Prometheus' text format. */
  text(): string {
    const all: string[] = [];
    for (const [name, { type, help, lines }] of this.#families) {
      all.push(`# HELP ${name} ${escapeHelp(help)}`, `# TYPE ${name} ${type}`, ...lines());
    }
    return all.map((line) => `${line}\n`).join('');
  }
}

function linesOf(name: string, value: ReturnType<MetricReader>): readonly string[] {
  if (value === undefined) return [];
  if (typeof value === 'number') return [sampleLine(name, value)];
  return value.map((sample) => sampleLine(name, sample.value, sample.labels));
}

/** One line of the text format. */
export function sampleLine(name: string, value: number, labels: MetricLabels = {}): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeLabel(text)}"`);
  return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${numberText(value)}`;
}

const numberText = (value: number): string =>
  Number.isNaN(value) ? 'NaN' : Number.isFinite(value) ? String(value) : value > 0 ? '+Inf' : '-Inf';

const escapeHelp = (text: string): string => text.replace(/\\/g, '\\\\').replace(/\n/g, '\\n');

const escapeLabel = (text: string): string => escapeHelp(text).replace(/"/g, '\\"');
