/**
 * One model: its versions on disk, those that serve, and the step from one to the other. A new version is loaded and
 * warmed while the old one answers; then requests go to the new one, and the old one drains and is freed. A version that
 * cannot be loaded changes nothing for requests.
 */
import { dirname, join } from 'node:path';
import { backoffMs } from '../../../base/async/backoff.js';
import { firstLineOf, ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import { LATEST, type ModelConfig, selectVersions } from '../config/model-config.js';
import type { VersionStatus } from '../requests.js';
import { statusOf } from '../status.js';
import type { Servable } from './servable.js';
import { statusOfVersion, type VersionRecord } from './version.js';
import { lookAt, missingIn, SETTLED_MS, versionsIn } from './version-files.js';

export interface VersionedModelOptions {
  readonly tags: readonly string[];
  /** Loads and warms a version; at most so many at a time as the manager admits. */
  readonly load: (
    model: string,
    version: number,
    directory: string,
    signal: AbortSignal,
  ) => Promise<Servable>;
  readonly log: Log;
  readonly unloaded: (model: string) => void;
  readonly drainMs: number;
  /** The wall clock, which file systems use; default: `Date.now`. */
  readonly now?: () => number;
}

interface FormerVersion {
  readonly record: VersionRecord;
  readonly servable: Servable;
}

type Labels = NonNullable<ModelConfig['labels']>;

const RETRY = { baseMs: 2000, maxMs: 5 * 60_000 };
/** A version that is not complete for so long is reported once. */
const REPORT_INCOMPLETE_MS = 30_000;
/** Versions whose failure or end is remembered for the status. */
const MAX_ENDED = 100;

export class ServedModel {
  readonly name: string;
  #config: ModelConfig;
  readonly #options: VersionedModelOptions;
  readonly #versions = new Map<number, VersionRecord>();
  /** Versions of another base path, which the model had before: they serve until one of its own does. */
  readonly #former = new Map<number, FormerVersion>();
  readonly #stop = new AbortController();
  readonly #unloading = new Set<Promise<void>>();
  #polling: Promise<void> | undefined;
  #hasWarnedEmpty = false;
  /** The versions that labels name: those of the configuration, once `assignLabels` was called for it. */
  #labels: Labels = {};

  constructor(config: ModelConfig, options: VersionedModelOptions) {
    this.name = config.name;
    this.#config = config;
    this.#options = options;
  }

  get config(): ModelConfig {
    return this.#config;
  }

  /** The versions that serve, highest first. */
  serving(): readonly Servable[] {
    const former = [...this.#former.values()].filter(({ record }) => !this.#own(record.version));
    return [...this.#versions.values()]
      .flatMap(({ progress }) => (progress.kind === 'serving' ? [progress.servable] : []))
      .concat(former.map(({ servable }) => servable))
      .sort((a, b) => b.version - a.version);
  }

  latest(): Servable | undefined {
    let found: Servable | undefined;
    for (const { version, progress } of this.#versions.values())
      if (progress.kind === 'serving' && !(found && found.version > version)) found = progress.servable;
    return found ?? this.#former.get(Math.max(...this.#former.keys()))?.servable;
  }

  version(version: number): Servable | undefined {
    return this.#own(version) ?? this.#former.get(version)?.servable;
  }

  #own(version: number): Servable | undefined {
    const progress = this.#versions.get(version)?.progress;
    return progress?.kind === 'serving' ? progress.servable : undefined;
  }

  label(label: string): number | undefined {
    return Object.hasOwn(this.#labels, label) ? this.#labels[label] : undefined;
  }

  statuses(): readonly VersionStatus[] {
    const former = [...this.#former.values()].filter(({ record }) => !this.#versions.has(record.version));
    return [...this.#versions.values(), ...former.map(({ record }) => record)]
      .map(statusOfVersion)
      .sort((a, b) => b.version - a.version);
  }

  /** Takes a changed configuration; the next poll acts on it. Labels name the versions that they named before. */
  configure(config: ModelConfig): void {
    this.#config = config;
  }

  /** A version to which the configuration moves a label, and which does not serve. */
  unavailableLabel(): number | undefined {
    const labels = Object.entries(this.#config.labels ?? {});
    return labels.find(([label, version]) => this.label(label) !== version && !this.version(version))?.[1];
  }

  /** From here on labels name the versions of the configuration. */
  assignLabels(): void {
    this.#labels = this.#config.labels ?? {};
  }

  /** Loads and warms a version that is not among those on the disk yet. It serves when it is adopted. */
  prepare(version: number, directory: string, signal: AbortSignal): Promise<Servable> {
    const either = AbortSignal.any([signal, this.#stop.signal]);
    return this.#options.load(this.name, version, directory, either);
  }

  /** The directories of the versions that are loaded, or on the way there. */
  directoriesInUse(): readonly string[] {
    return [...this.#versions.values()].filter(isActive).map(({ directory }) => directory);
  }

  /**
   * Makes a change on the disk, and in the same moment, between two polls, the version that was prepared for it serves.
   * The change returns the directory of that version. If it fails, the prepared version remains the caller's.
   */
  adopt(prepared: Servable | undefined, change: () => Promise<string>): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#stop.signal.aborted) throw new ShoalError('SHOAL_DISPOSED', `${this.name} is being unloaded`);
      const directory = await change();
      if (prepared) this.#take(prepared, directory);
      await this.#poll().catch((error: unknown) =>
        this.#options.log(`The versions of ${this.name} cannot be listed: ${firstLineOf(error)}`, 'error'),
      );
    });
  }

  #take(servable: Servable, directory: string): void {
    const { version } = servable;
    if (this.#own(version)) {
      // A poll has loaded it meanwhile.
      void servable.close(0);
      return;
    }
    this.#versions.set(version, {
      version,
      directory,
      look: undefined,
      progress: { kind: 'serving', servable },
      seenAt: this.#now(),
      isReported: false,
      failures: 0,
    });
    this.#options.log(`${this.name} version ${version} serves`);
  }

  /** Looks at the disk once, and loads and unloads what is due. Polls do not overlap. */
  poll(): Promise<void> {
    return this.#inTurn(() => this.#poll());
  }

  async #inTurn(work: () => Promise<void>): Promise<void> {
    const before = this.#polling ?? Promise.resolve();
    const own = before.then(work);
    // A poll that failed is reported to its caller, not to the next.
    this.#polling = own.catch(() => {});
    await own;
  }

  async #poll(): Promise<void> {
    if (this.#stop.signal.aborted) return;
    const found = await this.#found();
    this.#setApart();
    for (const version of this.#versions.keys()) if (!found.has(version)) this.#drop(version);
    if (found.size === 0) this.#warnEmpty();
    else this.#hasWarnedEmpty = false;
    const highestFirst = [...found].sort(([a], [b]) => b - a);
    for (const [version, directory] of highestFirst) {
      if (this.#isCandidate(version, found)) await this.#examine(version, directory);
      else if (this.#versions.get(version)?.progress.kind !== 'unloaded') this.#drop(version);
    }
    const wanted = this.#wanted(found);
    for (const version of [...wanted].reverse()) await this.#load(version);
    this.#unloadOthers(this.#wanted(found));
    this.#forget();
  }

  async #found(): Promise<ReadonlyMap<number, string>> {
    const { fixed, basePath } = this.#config;
    return fixed ? new Map([[fixed.version, fixed.directory]]) : versionsIn(basePath);
  }

  /** A version of another base path is not the version of the same number of this one. */
  #setApart(): void {
    const { fixed, basePath } = this.#config;
    for (const record of this.#versions.values()) {
      const { version, directory, progress } = record;
      const isOwn = fixed
        ? directory === fixed.directory
        : dirname(directory) === dirname(join(basePath, '0'));
      if (progress.kind !== 'serving' || isOwn) continue;
      this.#versions.delete(version);
      const earlier = this.#former.get(version);
      if (earlier) this.#unload(earlier.record, earlier.servable);
      this.#former.set(version, { record, servable: progress.servable });
    }
  }

  #warnEmpty(): void {
    if (this.#hasWarnedEmpty) return;
    this.#hasWarnedEmpty = true;
    this.#options.log(
      `No versions of servable ${this.name} found under base path ${this.#config.basePath}. ` +
        "Did you forget to name your leaf directory as a number (eg. '/1/')?",
      'warn',
    );
  }

  /** Whether a version that does not serve is complete and at rest. */
  async #examine(version: number, directory: string): Promise<void> {
    let record = this.#versions.get(version);
    if (record && record.directory !== directory && !isActive(record)) record = undefined;
    const now = this.#now();
    record ??= {
      version,
      directory,
      look: undefined,
      progress: { kind: 'incomplete', why: 'It was just found.' },
      seenAt: now,
      isReported: false,
      failures: 0,
    };
    this.#versions.set(version, record);
    const { progress } = record;
    if (isActive(record) || progress.kind === 'unloaded') return;
    try {
      const before = record.look;
      const look = await lookAt(directory);
      record.look = look;
      const isUnchanged = before?.fingerprint === look.fingerprint;
      if (progress.kind === 'failed') {
        if (isUnchanged || now < progress.retryAt) {
          // The files of the failure stay the ones to compare with until the retry is due.
          if (!isUnchanged) record.look = before;
          return;
        }
        record.progress = { kind: 'incomplete', why: 'Its files have changed.' };
        return;
      }
      const isAtRest = isUnchanged || now - look.changedAtMs > SETTLED_MS;
      const missing = await missingIn(directory, this.#options.tags);
      if (missing !== undefined) record.progress = { kind: 'incomplete', why: missing };
      else if (!isAtRest) record.progress = { kind: 'incomplete', why: 'Its files may still be written.' };
      else record.progress = { kind: 'complete' };
    } catch (error) {
      record.progress = { kind: 'incomplete', why: firstLineOf(error) };
    }
    this.#reportIncomplete(record, now);
  }

  #reportIncomplete(record: VersionRecord, now: number): void {
    if (record.progress.kind !== 'incomplete' || record.isReported) return;
    if (now - record.seenAt < REPORT_INCOMPLETE_MS) return;
    record.isReported = true;
    this.#options.log(
      `${this.name} version ${record.version} is not loaded, because it is not complete: ${record.progress.why}`,
      'warn',
    );
  }

  /** With the policy `latest`, a version below enough others that serve or can is not read. */
  #isCandidate(version: number, found: ReadonlyMap<number, string>): boolean {
    const { policy = LATEST } = this.#config;
    if (policy.kind === 'specific') return policy.versions.includes(version);
    if (policy.kind === 'all') return true;
    const above = [...this.#versions.values()].filter(
      (one) => one.version > version && found.has(one.version) && isAble(one),
    );
    return above.length < policy.count;
  }

  #drop(version: number): void {
    const record = this.#versions.get(version);
    if (record && !isActive(record)) this.#versions.delete(version);
  }

  /** The versions that should serve: those that the policy selects of the ones that can. */
  #wanted(found: ReadonlyMap<number, string>): readonly number[] {
    const { policy = LATEST } = this.#config;
    const able = [...this.#versions.values()].filter((one) => found.has(one.version) && isAble(one));
    return selectVersions(
      policy,
      able.map(({ version }) => version),
    );
  }

  async #load(version: number): Promise<void> {
    const record = this.#versions.get(version);
    const { kind } = record?.progress ?? {};
    if (!record || (kind !== 'complete' && kind !== 'unloaded') || this.#stop.signal.aborted) return;
    record.progress = { kind: 'loading' };
    const started = performance.now();
    const { log } = this.#options;
    try {
      const servable = await this.#options.load(this.name, version, record.directory, this.#stop.signal);
      if (this.#stop.signal.aborted) {
        await servable.close(0);
        return;
      }
      record.progress = { kind: 'serving', servable };
      record.failures = 0;
      const seconds = (performance.now() - started) / 1000;
      log(
        `${this.name} version ${version} serves (loaded in ${seconds.toFixed(1)} s from ${record.directory})`,
      );
    } catch (error) {
      if (this.#stop.signal.aborted) return;
      record.failures += 1;
      record.progress = {
        kind: 'failed',
        error: statusOf(error),
        attempts: record.failures,
        retryAt: this.#now() + backoffMs(record.failures - 1, RETRY),
      };
      const serving = this.serving().map((one) => one.version);
      const now = serving.length === 0 ? 'no version serves' : `still serving: ${serving.join(', ')}`;
      log(
        `${this.name} version ${version} cannot be loaded (${now}): ${firstLineOf(error)}. ` +
          'It is tried again when its files change.',
        'error',
      );
    }
  }

  /** Versions that are not wanted go when a wanted one serves; a base path that lost its versions unloads nothing. */
  #unloadOthers(wanted: readonly number[]): void {
    if (!wanted.some((version) => this.#own(version))) return;
    this.#unloadFormer();
    for (const record of this.#versions.values())
      if (record.progress.kind === 'serving' && !wanted.includes(record.version))
        this.#unload(record, record.progress.servable);
  }

  #unloadFormer(): void {
    for (const { record, servable } of this.#former.values()) this.#unload(record, servable);
    this.#former.clear();
  }

  #unload(record: VersionRecord, servable: Servable): void {
    const { log, unloaded, drainMs } = this.#options;
    record.progress = { kind: 'unloading' };
    const unloading = servable
      .close(drainMs)
      .then(
        () => {
          unloaded(this.name);
          log(`${this.name} version ${record.version} was unloaded`);
        },
        (error: unknown) =>
          log(`${this.name} version ${record.version} was not freed: ${firstLineOf(error)}`, 'error'),
      )
      .then(() => {
        record.progress = { kind: 'unloaded' };
        this.#unloading.delete(unloading);
      });
    this.#unloading.add(unloading);
  }

  #forget(): void {
    const ended = [...this.#versions.values()].filter(({ progress: { kind } }) => kind === 'unloaded');
    for (const { version } of ended.sort((a, b) => b.version - a.version).slice(MAX_ENDED))
      this.#versions.delete(version);
  }

  #now(): number {
    return (this.#options.now ?? Date.now)();
  }

  /** Stops loads, and unloads all versions when their requests have ended. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#polling;
    for (const record of this.#versions.values())
      if (record.progress.kind === 'serving') this.#unload(record, record.progress.servable);
    this.#unloadFormer();
    await Promise.all(this.#unloading);
  }
}

/** Loaded or on the way there: its files are not looked at. */
const isActive = ({ progress: { kind } }: VersionRecord): boolean =>
  kind === 'loading' || kind === 'serving' || kind === 'unloading';

/** It serves, or can. */
const isAble = ({ progress: { kind } }: VersionRecord): boolean =>
  kind === 'complete' || kind === 'serving' || kind === 'unloaded';
