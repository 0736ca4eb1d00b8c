/**
 * Accepts versions for the models of this process, one publication of a model at a time. A publication whose publisher
 * is silent for too long is ended.
 */
import { randomBytes } from 'node:crypto';
import { realpath } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { describeError, invalid, isShoalError, messageOf, ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import { LATEST } from '../config/model-config.js';
import type { ModelManager } from '../models/manager.js';
import type { ServedModel } from '../models/served-model.js';
import { bytesOf, checkPaths, digestOf } from './manifest.js';
import { checkTakes, type PublicationChange, VersionPublication } from './publication.js';
import { diskError, VersionStore } from './version-store.js';
import type { BeginReply, BeginRequest, ModelReport } from './wire.js';

export interface ReceiverOptions {
  readonly models: ModelManager;
  /** How many versions stay on the disk; 0: all. */
  readonly keep: number;
  readonly log: Log;
  /** How long a publisher may be silent; default: 20 s. */
  readonly silenceMs?: number;
}

const SILENCE_MS = 20_000;
const CHECK_MS = 500;
/** Publications that have ended and can still be asked for. */
const MAX_ENDED = 100;

export class Receiver {
  readonly #options: ReceiverOptions;
  readonly #publications = new Map<string, VersionPublication>();
  /** By base path: who publishes there, from the beginning of the publication on. */
  readonly #active = new Map<string, string>();
  readonly #beginning = new Set<Promise<unknown>>();
  /** By base path. */
  readonly #stores = new Map<string, Promise<VersionStore>>();
  readonly #timer: NodeJS.Timeout;
  #isClosed = false;

  private constructor(options: ReceiverOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.#endSilent(), CHECK_MS);
  }

  /** Removes what earlier publications left on the disks. */
  static async open(options: ReceiverOptions): Promise<Receiver> {
    const receiver = new Receiver(options);
    const { models, log } = options;
    for (const name of models.names) {
      const model = models.model(name);
      if (model && !model.config.fixed)
        await receiver
          .#storeOf(model)
          .catch((error: unknown) =>
            log(`${name}: leftovers of publications were not removed: ${messageOf(error)}`, 'error'),
          );
    }
    return receiver;
  }

  /** The models and their versions. */
  async report(): Promise<readonly ModelReport[]> {
    const { models } = this.#options;
    const known = models.names.flatMap((name) => models.model(name) ?? []);
    return Promise.all(
      known
        .filter(({ config }) => !config.fixed)
        .map(async (model) => {
          const store = await this.#storeOf(model);
          const [onDisk, withdrawn] = [await store.versions(), await store.withdrawn()];
          const states = new Map(model.statuses().map(({ version, state }) => [version, state]));
          const all = new Set([...onDisk, ...withdrawn, ...states.keys()]);
          const versions = [...all]
            .sort((a, b) => b - a)
            .map((version) => ({
              version,
              state: states.get(version) ?? '',
              isOnDisk: onDisk.includes(version),
              isWithdrawn: withdrawn.includes(version),
            }));
          return { name: model.name, versions };
        }),
    );
  }

  /** Begins a publication, unless another one is under way or there is nothing to do. */
  async begin(request: BeginRequest): Promise<BeginReply> {
    const beginning = this.#begin(request);
    this.#beginning.add(beginning);
    try {
      return await beginning;
    } finally {
      this.#beginning.delete(beginning);
    }
  }

  async #begin(request: BeginRequest): Promise<BeginReply> {
    this.#requireOpen();
    const model = this.#modelOf(request.model);
    const place = placeOf(model);
    checkTakes(model, { basePath: place });
    const by = this.#active.get(place);
    if (by !== undefined) return { outcome: 'busy', by };
    this.#active.set(place, request.by);
    let id: string | undefined;
    try {
      const store = await this.#storeOf(model);
      const change =
        request.kind === 'publish' ? await this.#offer(store, request) : await this.#back(store, request);
      if ('outcome' in change) return change;
      id = randomBytes(12).toString('hex');
      this.#publications.set(id, this.#publication(id, model, store, request.by, change));
      return { outcome: 'open', id };
    } finally {
      if (id === undefined) this.#active.delete(place);
    }
  }

  #requireOpen(): void {
    if (this.#isClosed) throw new ShoalError('SHOAL_UNREACHABLE', 'the server is stopping');
  }

  /** A publication by its id; it counts as heard from. */
  publication(id: string): VersionPublication {
    const found = this.#publications.get(id);
    if (!found)
      throw new ShoalError(
        'SHOAL_NOT_FOUND',
        'there is no such publication: the server was restarted meanwhile',
      );
    found.heard();
    return found;
  }

  /** Ends all publications. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await Promise.allSettled(this.#beginning);
    await Promise.all([...this.#publications.values()].map((one) => one.abort('the server is stopping')));
  }

  async #offer(
    store: VersionStore,
    { version, digest, files }: Extract<BeginRequest, { kind: 'publish' }>,
  ): Promise<PublicationChange | BeginReply> {
    checkPaths(files);
    if (digestOf(files) !== digest)
      throw new ShoalError('SHOAL_CORRUPT', `the list of files of version ${version} was damaged on the way`);
    const [onDisk, withdrawn] = [await store.versions(), await store.withdrawn()];
    if (withdrawn.includes(version)) return { outcome: 'withdrawn' };
    if (onDisk.includes(version))
      return { outcome: (await store.digestOf(version)) === digest ? 'has' : 'conflict' };
    const newest = Math.max(0, ...onDisk, ...withdrawn);
    if (version < newest) return { outcome: 'older', newest };
    try {
      this.#requireOpen();
      const staging = await store.stage(version, bytesOf(files));
      return { kind: 'publish', version, digest, files, staging };
    } catch (error) {
      throw diskError(version, join(store.basePath, String(version)), error);
    }
  }

  async #back(
    store: VersionStore,
    { from, to }: Extract<BeginRequest, { kind: 'rollback' }>,
  ): Promise<PublicationChange | BeginReply> {
    const onDisk = await store.versions();
    if (!onDisk.includes(to) || to >= from)
      throw new ShoalError('SHOAL_NOT_FOUND', `version ${to} is not on the disk of ${store.basePath}`, {
        hint: `There are: ${onDisk.join(', ') || 'none'}. shoal serve --publish_keep=N keeps more.`,
      });
    const [newest = 0] = onDisk;
    if (newest > from) return { outcome: 'older', newest };
    if (newest === from) return { kind: 'rollback', from, to };
    if (newest === to) return { outcome: 'has' };
    throw invalid(
      `the newest version on the disk of ${store.basePath} is version ${newest}, not ${from} or ${to}`,
    );
  }

  #publication(
    id: string,
    model: ServedModel,
    store: VersionStore,
    by: string,
    change: PublicationChange,
  ): VersionPublication {
    const { log } = this.#options;
    const place = placeOf(model);
    const onEnd = async (isCommitted: boolean): Promise<void> => {
      try {
        if (isCommitted) await this.#removeOld(store, model.name);
      } finally {
        this.#active.delete(place);
        this.#forget();
      }
    };
    return new VersionPublication({ id, model, store, by, log, change, onEnd });
  }

  #modelOf(name: string | undefined): ServedModel {
    const { models } = this.#options;
    const hint = `This server has: ${models.names.join(', ') || 'none'}.`;
    if (name === undefined && models.names.length !== 1)
      throw invalid('the server has several models: name one', {
        hint: `${hint} shoal publish --model=NAME`,
      });
    const model = models.model(name ?? (models.names[0] as string));
    if (!model) throw new ShoalError('SHOAL_NOT_FOUND', `the server has no model ${name}`, { hint });
    return model;
  }

  /** The first use of a directory sweeps it: no publication to it is under way then. */
  #storeOf(model: ServedModel): Promise<VersionStore> {
    const basePath = placeOf(model);
    const open = async (): Promise<VersionStore> => {
      const store = new VersionStore(basePath);
      await store.sweep();
      return store;
    };
    const known = this.#stores.get(basePath) ?? open();
    this.#stores.set(basePath, known);
    known.catch(() => this.#stores.delete(basePath));
    return known;
  }

  async #removeOld(store: VersionStore, name: string): Promise<void> {
    const { keep, log } = this.#options;
    try {
      const isInUse = await this.#usesOf(store);
      const removed = await store.removeOld(keep, isInUse);
      if (removed.length > 0) log(`${name}: removed old versions from the disk: ${removed.join(', ')}`);
    } catch (error) {
      const text = isShoalError(error) ? describeError(error) : messageOf(error);
      log(`${name}: old versions were not removed: ${text}`, 'error');
    }
  }

  /** Whether a model of this process has a version loaded, or is configured to serve it. */
  async #usesOf(store: VersionStore): Promise<(version: number, directory: string) => Promise<boolean>> {
    const { models } = this.#options;
    const own = await realOf(store.basePath);
    const named = new Set<number>();
    const directories = new Set<string>();
    for (const model of models.names.flatMap((name) => models.model(name) ?? [])) {
      for (const directory of model.directoriesInUse()) directories.add(await realOf(directory));
      const { policy = LATEST, labels = {}, basePath } = model.config;
      if ((await realOf(basePath)) !== own) continue;
      const versions = policy.kind === 'specific' ? policy.versions : [];
      for (const version of [...versions, ...Object.values(labels)]) named.add(version);
    }
    return async (version, directory) => named.has(version) || directories.has(await realOf(directory));
  }

  #endSilent(): void {
    const { silenceMs = SILENCE_MS, log } = this.#options;
    for (const one of this.#publications.values()) {
      if (one.isOver || one.silentMs < silenceMs) continue;
      one
        .abort(`${one.by} has not been heard from for ${Math.round(one.silentMs / 1000)} s`)
        .catch((error: unknown) => log(`A publication was not ended: ${describeError(error)}`, 'error'));
    }
  }

  #forget(): void {
    const ended = [...this.#publications.values()].filter(({ isOver }) => isOver);
    for (const { id } of ended.slice(0, Math.max(0, ended.length - MAX_ENDED))) this.#publications.delete(id);
  }
}

/** Equal for models that share a base path. */
const placeOf = ({ config }: ServedModel): string => resolve(config.basePath);

/** A path without links; itself if there is nothing. */
const realOf = (path: string): Promise<string> => realpath(path).catch(() => path);
