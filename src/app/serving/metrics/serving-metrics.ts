/**
 * What the server measures, under TensorFlow Serving's names in their Prometheus spelling, in which / is a colon, and
 * under `shoal_serving_` what it has no name for.
 */
import {
  Histogram,
  type MetricLabels,
  type MetricSample,
  sampleLine,
} from '../../../base/metrics/metrics.js';
import type { Status } from '../status.js';

/** Microseconds from 10 on, each 1.8 times the one before, to about 20 minutes: TensorFlow Serving's buckets. */
const LATENCY_BOUNDS = Array.from({ length: 33 }, (_, i) => 10 * 1.8 ** i);
const COUNT_BOUNDS = Array.from({ length: 15 }, (_, i) => 2 ** i);

export type Api =
  | 'Predict'
  | 'Classify'
  | 'Regress'
  | 'MultiInference'
  | 'GetModelMetadata'
  | 'GetModelStatus';
export type Entrypoint = 'REST' | 'GRPC';

/** Labels with the path of a version: so many, the latest. Versions come for as long as the server runs. */
const MAX_PATHS = 100;

/** Versions that were published are loaded from a hidden directory, which then gets the name of the version. */
const versionPath = (path: string): string => path.replace(/\.(\d+)\.tmp-[^/]*$/, '$1');

class Counters {
  readonly #maxSize: number;
  readonly #values = new Map<string, { readonly labels: MetricLabels; value: number }>();

  constructor(maxSize = Number.POSITIVE_INFINITY) {
    this.#maxSize = maxSize;
  }

  add(labels: MetricLabels, amount = 1): void {
    const key = Object.values(labels).join('\0');
    const found = this.#values.get(key);
    if (found) found.value += amount;
    else this.#values.set(key, { labels, value: amount });
    dropOldest(this.#values, this.#maxSize);
  }

  lines(name: string): readonly string[] {
    return [...this.#values.values()].map(({ labels, value }) => sampleLine(name, value, labels));
  }
}

function dropOldest(values: Map<string, unknown>, maxSize: number): void {
  for (const key of values.keys()) {
    if (values.size <= maxSize) return;
    values.delete(key);
  }
}

class Histograms {
  readonly #bounds: readonly number[];
  readonly #maxSize: number;
  readonly #values = new Map<string, { readonly labels: MetricLabels; readonly histogram: Histogram }>();

  constructor(bounds: readonly number[], maxSize = Number.POSITIVE_INFINITY) {
    this.#bounds = bounds;
    this.#maxSize = maxSize;
  }

  observe(labels: MetricLabels, value: number): void {
    const key = Object.values(labels).join('\0');
    let found = this.#values.get(key);
    if (!found) {
      found = { labels, histogram: new Histogram(this.#bounds) };
      this.#values.set(key, found);
      dropOldest(this.#values, this.#maxSize);
    }
    found.histogram.observe(value);
  }

  lines(name: string): readonly string[] {
    return [...this.#values.values()].flatMap(({ labels, histogram }) => histogram.lines(name, labels));
  }
}

/** Read when the metrics are. */
export interface Gauges {
  readonly running: () => number;
  readonly queued: () => number;
  readonly versions: () => readonly MetricSample[];
  readonly ready: () => boolean;
}

export class ServingMetrics {
  readonly #requests = new Counters();
  readonly #requestLatency = new Histograms(LATENCY_BOUNDS);
  readonly #runtimeLatency = new Histograms(LATENCY_BOUNDS);
  readonly #exampleCounts = new Histograms(COUNT_BOUNDS);
  readonly #exampleTotal = new Counters();
  readonly #loads = new Counters(MAX_PATHS);
  readonly #loadLatency = new Histograms(LATENCY_BOUNDS, MAX_PATHS);
  readonly #warmups = new Histograms(LATENCY_BOUNDS, MAX_PATHS);
  readonly #batchSizes = new Histograms(COUNT_BOUNDS);
  readonly #queueing = new Histograms(LATENCY_BOUNDS);
  readonly #unloads = new Counters();
  #gauges: Gauges | undefined;

  /** Sets what is read from elsewhere. */
  readGauges(gauges: Gauges): void {
    this.#gauges = gauges;
  }

  /** A request ended; `model` is empty if there is no such model. */
  request(model: string, api: Api, entrypoint: Entrypoint, status: Status | 'OK', startedMs: number): void {
    this.#requests.add({ model_name: model, status });
    if (status !== 'OK') return;
    const micros = (performance.now() - startedMs) * 1000;
    this.#requestLatency.observe({ model_name: model, API: api, entrypoint }, micros);
  }

  run(model: string, api: Api, startedMs: number): void {
    const micros = (performance.now() - startedMs) * 1000;
    this.#runtimeLatency.observe({ model_name: model, API: api, runtime: 'TF1' }, micros);
  }

  examples(model: string, count: number): void {
    this.#exampleCounts.observe({ model }, count);
    this.#exampleTotal.add({ model }, count);
  }

  batch(model: string, examples: number): void {
    this.#batchSizes.observe({ model_name: model }, examples);
  }

  queued(model: string, ms: number): void {
    this.#queueing.observe({ model_name: model }, ms * 1000);
  }

  load(path: string, isDone: boolean, ms: number): void {
    const labels = { model_path: versionPath(path) };
    this.#loads.add({ ...labels, status: isDone ? 'success' : 'fail' });
    if (isDone) this.#loadLatency.observe(labels, ms * 1000);
  }

  unload(model: string): void {
    this.#unloads.add({ model_name: model });
  }

  warmUp(path: string, isDone: boolean, ms: number): void {
    this.#warmups.observe({ model_path: versionPath(path), status: isDone ? 'success' : 'fail' }, ms * 1000);
  }

  /** All metrics in Prometheus' text format. */
  text(): string {
    const lines: string[] = [];
    const family = (
      name: string,
      type: 'counter' | 'gauge' | 'histogram',
      help: string,
      values: readonly string[],
    ) => {
      lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...values);
    };
    const counter = (name: string, help: string, values: Counters) =>
      family(name, 'counter', help, values.lines(name));
    const histogram = (name: string, help: string, values: Histograms) =>
      family(name, 'histogram', help, values.lines(name));
    counter(':tensorflow:serving:request_count', 'Requests by model and status.', this.#requests);
    histogram(
      ':tensorflow:serving:request_latency',
      'Time of requests in microseconds.',
      this.#requestLatency,
    );
    histogram(':tensorflow:serving:runtime_latency', 'Time of runs in microseconds.', this.#runtimeLatency);
    histogram(':tensorflow:serving:request_example_counts', 'Examples per request.', this.#exampleCounts);
    counter(
      ':tensorflow:serving:request_example_count_total',
      'Examples of all requests.',
      this.#exampleTotal,
    );
    histogram(':tensorflow:serving:model_warmup_latency', 'Time of warm-ups in microseconds.', this.#warmups);
    histogram(
      ':tensorflow:serving:batching_session:queuing_latency',
      'Time of requests in a batch queue in microseconds.',
      this.#queueing,
    );
    counter(':tensorflow:cc:saved_model:load_attempt_count', 'Loads of versions.', this.#loads);
    histogram(':tensorflow:cc:saved_model:load_latency', 'Time of loads in microseconds.', this.#loadLatency);
    histogram('shoal_serving_batch_size', 'Examples of batches, without padding.', this.#batchSizes);
    counter('shoal_serving_unloads_total', 'Versions that were unloaded.', this.#unloads);
    const gauges = this.#gauges;
    if (gauges) {
      const one = (name: string, help: string, value: number) =>
        family(name, 'gauge', help, [sampleLine(name, value)]);
      one('shoal_serving_ready', 'Whether every model has a version that serves.', gauges.ready() ? 1 : 0);
      one('shoal_serving_running', 'Runs in progress.', gauges.running());
      one('shoal_serving_queued', 'Requests that wait for a run.', gauges.queued());
      const name = 'shoal_serving_version_state';
      family(
        name,
        'gauge',
        'Versions by state: 1 for the state that a version has.',
        gauges.versions().map(({ value, labels }) => sampleLine(name, value, labels)),
      );
    }
    const memory = 'process_resident_memory_bytes';
    family(memory, 'gauge', 'Resident memory.', [sampleLine(memory, process.memoryUsage.rss())]);
    return lines.map((line) => `${line}\n`).join('');
  }
}
