/** The models of a server: finds the version that a request names, polls the base paths, takes a changed list. */
import { sleep } from '../../../base/async/deadline.js';
import { firstLineOf } from '../../../base/errors/errors.js';
import type { MetricSample } from '../../../base/metrics/metrics.js';
import type { Log } from '../../../base/text/log.js';
import { checkModels, type ModelConfig } from '../config/model-config.js';
import type { ModelSpec, VersionStatus } from '../requests.js';
import { invalidRequest, ServingError } from '../status.js';
import type { Servable } from './servable.js';
import { ServedModel } from './served-model.js';

export interface ManagerOptions {
  readonly tags: readonly string[];
  readonly load: (
    model: string,
    version: number,
    directory: string,
    signal: AbortSignal,
  ) => Promise<Servable>;
  readonly log: Log;
  /** Called when a version was freed. */
  readonly unloaded: (model: string) => void;
  /** How often base paths are looked at; 0: once; below 0: never. */
  readonly pollMs: number;
  /** How long requests on a version that is unloaded may still run; default: 60 s. */
  readonly drainMs?: number;
  /** Labels may name versions that do not serve; default: false. */
  readonly allowLabelsOfUnavailable?: boolean;
}

const DRAIN_MS = 60_000;
/** Between two looks at a version that is new. */
const SECOND_LOOK_MS = 500;

export class ModelManager {
  readonly #options: ManagerOptions;
  readonly #models = new Map<string, ServedModel>();
  readonly #stop = new AbortController();
  readonly #closing = new Set<Promise<void>>();
  /** Loads happen one after the other: each uses all cores and much memory. */
  #loads: Promise<unknown> = Promise.resolve();
  #reloads: Promise<void> = Promise.resolve();
  #loop: Promise<void> | undefined;

  constructor(options: ManagerOptions) {
    this.#options = options;
  }

  /** Looks for the versions of all models, loads them, and keeps looking. */
  async start(models: readonly ModelConfig[]): Promise<void> {
    checkModels(models);
    this.#setModels(models);
    for (const model of this.#models.values()) model.assignLabels();
    if (this.#options.pollMs < 0) return;
    await this.#pollTwice();
    if (this.#options.pollMs > 0) this.#loop = this.#keepPolling();
  }

  get names(): readonly string[] {
    return [...this.#models.keys()];
  }

  /** Whether every model has a version that serves. */
  get isReady(): boolean {
    const all = [...this.#models.values()];
    return !this.#stop.signal.aborted && all.every((model) => model.latest() !== undefined);
  }

  model(name: string): ServedModel | undefined {
    return this.#models.get(name);
  }

  /** The version that a specification names; without one, the highest that serves. */
  find({ name, version, label }: ModelSpec): Servable {
    if (name === '') throw invalidRequest('ModelSpec has no name specified.');
    const model = this.#models.get(name);
    if (version === undefined && label === undefined) {
      const latest = model?.latest();
      if (!latest) throw notServing(`Latest(${name})`);
      return latest;
    }
    const number = version === undefined ? model?.label(label as string) : Number(version);
    if (number === undefined) throw invalidRequest(`Unrecognized servable version label: ${label}`);
    const found = model?.version(number);
    if (!found) throw notServing(`Specific(${name}, ${version ?? number})`);
    return found;
  }

  status({ name, version, label }: ModelSpec): readonly VersionStatus[] {
    const model = this.#models.get(name);
    const statuses = model?.statuses() ?? [];
    const number = version === undefined && label !== undefined ? model?.label(label) : version;
    if (label !== undefined && number === undefined)
      throw invalidRequest(`Unrecognized servable version label: ${label}`);
    if (number === undefined) {
      if (statuses.length > 0) return statuses;
      throw new ServingError('NOT_FOUND', `Could not find any versions of model ${name}`);
    }
    const found = statuses.filter((status) => status.version === Number(number));
    if (found.length > 0) return found;
    throw new ServingError('NOT_FOUND', `Could not find version ${number} of model ${name}`);
  }

  /** For metrics: each version of each model with its state. */
  versionSamples(): readonly MetricSample[] {
    return [...this.#models].flatMap(([model, served]) =>
      served.statuses().map(({ version, state }) => ({
        labels: { model_name: model, version: String(version), state },
        value: 1,
      })),
    );
  }

  /**
   * Takes another list of models. Labels are moved together, when the versions of the list serve; if one of them cannot be
   * moved, all name what they named before. A new model without a version that serves is reported, and stays in the list.
   */
  async reload(models: readonly ModelConfig[]): Promise<void> {
    checkModels(models);
    const reloading = this.#reloads.then(() => this.#reload(models));
    this.#reloads = reloading.catch(() => {});
    await reloading;
  }

  async #reload(models: readonly ModelConfig[]): Promise<void> {
    const before = new Set(this.names);
    this.#setModels(models);
    await this.#pollTwice();
    const served = models.flatMap(({ name }) => this.#models.get(name) ?? []);
    if (!this.#options.allowLabelsOfUnavailable)
      for (const model of served) {
        const version = model.unavailableLabel();
        if (version !== undefined) throw unavailableLabel(model.name, version);
      }
    for (const model of served) model.assignLabels();
    const missing = served.filter((model) => !before.has(model.name) && !model.latest());
    if (missing.length > 0) throw unavailable(missing);
  }

  #setModels(models: readonly ModelConfig[]): void {
    const wanted = new Set(models.map(({ name }) => name));
    for (const [name, model] of this.#models) {
      if (wanted.has(name)) continue;
      this.#models.delete(name);
      const closing = model.close().finally(() => this.#closing.delete(closing));
      this.#closing.add(closing);
    }
    const { tags, log, unloaded, drainMs = DRAIN_MS } = this.#options;
    for (const config of models) {
      const model = this.#models.get(config.name);
      if (model) model.configure(config);
      else {
        const load: ManagerOptions['load'] = (...what) => this.#loadInTurn(...what);
        this.#models.set(config.name, new ServedModel(config, { tags, log, unloaded, drainMs, load }));
      }
    }
  }

  #loadInTurn(...what: Parameters<ManagerOptions['load']>): Promise<Servable> {
    const loading = this.#loads.then(() => {
      what[3].throwIfAborted();
      return this.#options.load(...what);
    });
    this.#loads = loading.catch(() => {});
    return loading;
  }

  /** A version that was just written is loaded at the second look. */
  async #pollTwice(): Promise<void> {
    await this.poll();
    const isWaiting = [...this.#models.values()].some((model) =>
      model.statuses().some(({ state }) => state === 'START'),
    );
    if (!isWaiting || this.#stop.signal.aborted) return;
    await sleep(SECOND_LOOK_MS, this.#stop.signal).catch(() => {});
    await this.poll();
  }

  /** Looks at the base paths of all models. */
  async poll(): Promise<void> {
    await Promise.all(
      [...this.#models.values()].map((model) =>
        model.poll().catch((error: unknown) => {
          this.#options.log(`The versions of ${model.name} cannot be listed: ${firstLineOf(error)}`, 'error');
        }),
      ),
    );
  }

  async #keepPolling(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      // The end of the server ends the wait.
      await sleep(this.#options.pollMs, this.#stop.signal).catch(() => {});
      if (!this.#stop.signal.aborted) await this.poll();
    }
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#loop;
    await Promise.all([...[...this.#models.values()].map((model) => model.close()), ...this.#closing]);
  }
}

const unavailableLabel = (model: string, version: number): ServingError =>
  new ServingError(
    'FAILED_PRECONDITION',
    `Request to assign label to version ${version} of model ${model}, which is not currently available for inference`,
  );

function unavailable(models: readonly ServedModel[]): ServingError {
  const each = models.map((model) => {
    const why = model.statuses().find(({ message }) => message !== '')?.message;
    const what = `{name: ${model.name}${why === undefined ? '' : ` due to error: ${why}`}}`;
    return why === undefined ? `${what} (no versions in ${model.config.basePath})` : what;
  });
  return new ServingError(
    'UNKNOWN',
    `${models.length} model(s) did not become available: {${each.join(', ')}}`,
  );
}

const notServing = (request: string): ServingError =>
  new ServingError('NOT_FOUND', `Servable not found for request: ${request}`);
