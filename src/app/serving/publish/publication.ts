/**
 * One change of a model's versions on this machine, in two phases:
 *
 *     receiving ─▶ preparing ─▶ prepared ─▶ committing ─▶ committed
 *         └────────────┴────────────┴────────────┴──────▶ failed: nothing has changed
 *
 * To prepare is to load and warm the version that will serve, unseen. To commit is one rename on the disk. A publisher that
 * falls silent before the commit has changed nothing.
 */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { faultPoint } from '../../../base/async/fault-point.js';
import { crc32c } from '../../../base/bytes/crc32c.js';
import { combineCrc32c } from '../../../base/bytes/crc32c-combine.js';
import { describeError, invalid, isShoalError, messageOf, ShoalError } from '../../../base/errors/errors.js';
import { makeDirectory } from '../../../base/files/directories.js';
import type { Log } from '../../../base/text/log.js';
import type { Staging } from '../../../training/saved-model/writing/staging.js';
import { LATEST } from '../config/model-config.js';
import type { Servable } from '../models/servable.js';
import type { ServedModel } from '../models/served-model.js';
import type { FileEntry } from './manifest.js';
import { diskError, type VersionStore } from './version-store.js';
import { type PublicationState, RANGE_BYTES } from './wire.js';

export interface PublicationOptions {
  readonly id: string;
  readonly model: ServedModel;
  readonly store: VersionStore;
  readonly by: string;
  readonly log: Log;
  readonly change: PublicationChange;
  /** Called once, when it is committed or has failed. */
  readonly onEnd: (isCommitted: boolean) => Promise<void>;
}

export type PublicationChange =
  | {
      readonly kind: 'publish';
      readonly version: number;
      readonly digest: string;
      readonly files: readonly FileEntry[];
      readonly staging: Staging;
    }
  | { readonly kind: 'rollback'; readonly from: number; readonly to: number };

/** One range of a file, as the publisher describes it. */
export interface Range {
  readonly file: number;
  readonly offset: number;
  readonly crc32c: number;
}

export class VersionPublication {
  readonly #options: PublicationOptions;
  readonly #stop = new AbortController();
  /** The checksums of the ranges that have arrived, by file and range. */
  readonly #arrived = new Map<number, Map<number, number>>();
  #progress: PublicationState['state'];
  #error: ShoalError | undefined;
  #servable: Servable | undefined;
  #work: Promise<void> = Promise.resolve();
  /** By `performance.now`. */
  #heardAt = performance.now();

  constructor(options: PublicationOptions) {
    this.#options = options;
    this.#progress = options.change.kind === 'publish' ? 'receiving' : 'preparing';
    if (options.change.kind === 'rollback') this.#begin(() => this.#prepare());
  }

  get id(): string {
    return this.#options.id;
  }

  get by(): string {
    return this.#options.by;
  }

  get model(): string {
    return this.#options.model.name;
  }

  get isOver(): boolean {
    return this.#progress === 'committed' || this.#progress === 'failed';
  }

  /** The time since the publisher was last heard from. */
  get silentMs(): number {
    return this.#progress === 'committing' ? 0 : performance.now() - this.#heardAt;
  }

  heard(): void {
    this.#heardAt = performance.now();
  }

  state(): PublicationState {
    const error = this.#error;
    if (!error) return { state: this.#progress };
    const { code, message, hint } = error;
    return { state: this.#progress, error: { code, message, ...(hint === undefined ? {} : { hint }) } };
  }

  /** How many bytes a range must have. */
  lengthOf({ file, offset }: Range): number {
    const { bytes } = this.#file(file);
    const isRange = offset % RANGE_BYTES === 0 && offset < Math.max(1, bytes);
    if (!isRange) throw invalid(`file ${file} has no range at ${offset}`);
    return Math.min(RANGE_BYTES, bytes - offset);
  }

  /** Writes a range that has arrived, if its checksum is right. */
  async write(range: Range, bytes: Buffer): Promise<void> {
    this.#require('receiving');
    const { path } = this.#file(range.file);
    if (bytes.byteLength !== this.lengthOf(range) || crc32c(bytes) !== range.crc32c)
      throw new ShoalError(
        'SHOAL_CORRUPT',
        `${path} was damaged on the way, in the range at ${range.offset}`,
      );
    const { staging, version } = this.#publish();
    const target = join(staging.directory, path);
    try {
      await makeDirectory(dirname(target));
      await writeAt(target, bytes, range.offset);
    } catch (error) {
      const failure = diskError(version, staging.directory, error);
      // A full disk does not become free by trying again.
      if (isShoalError(failure, 'SHOAL_NO_SPACE')) await this.#fail(failure);
      throw failure;
    }
    const arrived = this.#arrived.get(range.file) ?? new Map<number, number>();
    this.#arrived.set(range.file, arrived.set(range.offset / RANGE_BYTES, range.crc32c));
  }

  /** Starts to load the version that was received; `state` tells when it is prepared. */
  prepare(): void {
    if (this.#progress === 'preparing' || this.#progress === 'prepared') return;
    this.#require('receiving');
    this.#progress = 'preparing';
    this.#begin(async () => {
      await this.#complete();
      await this.#prepare();
    });
  }

  /** Makes the version serve; `state` tells when it does. */
  commit(): void {
    if (this.#progress === 'committing' || this.#progress === 'committed') return;
    this.#require('prepared');
    this.#progress = 'committing';
    this.#begin(() => this.#commit());
  }

  /** Ends a publication that is not committed. Nothing of it remains. */
  async abort(why: string): Promise<void> {
    if (this.#progress === 'committing') await this.#work;
    if (this.isOver) return;
    await this.#fail(new ShoalError('SHOAL_ABORTED', why));
  }

  #begin(work: () => Promise<void>): void {
    this.#work = work().catch((error: unknown) => this.#fail(error));
  }

  async #complete(): Promise<void> {
    const { files, staging, version } = this.#publish();
    for (const [index, { path, bytes, crc32c: expected }] of files.entries()) {
      const ranges = this.#arrived.get(index) ?? new Map<number, number>();
      let crc = 0;
      for (let range = 0; range === 0 || range * RANGE_BYTES < bytes; range++) {
        const own = ranges.get(range);
        if (own === undefined) throw invalid(`version ${version} is not complete: ${path} lacks a range`);
        crc = combineCrc32c(crc, own, Math.min(RANGE_BYTES, bytes - range * RANGE_BYTES));
      }
      if (crc !== expected)
        throw new ShoalError(
          'SHOAL_CORRUPT',
          `${path} of version ${version} is not what the publisher announced`,
        );
      const handle = await open(join(staging.directory, path), 'r+');
      try {
        await handle.datasync();
      } catch (error) {
        throw diskError(version, staging.directory, error);
      } finally {
        await handle.close();
      }
    }
  }

  async #prepare(): Promise<void> {
    const { change, model, store } = this.#options;
    await faultPoint('publish.prepare');
    const [version, directory] =
      change.kind === 'publish'
        ? [change.version, change.staging.directory]
        : [change.to, await store.directoryOf(change.to)];
    if (change.kind === 'publish' || !model.version(version)) {
      const servable = await model.prepare(version, directory, this.#stop.signal);
      if (this.isOver) {
        await servable.close(0);
        return;
      }
      this.#servable = servable;
    }
    this.heard();
    this.#progress = 'prepared';
    await faultPoint('publish.prepared');
  }

  async #commit(): Promise<void> {
    const { change, model, store, log, by, onEnd } = this.#options;
    await faultPoint('publish.commit.before');
    await model.adopt(this.#servable, async () => {
      checkTakes(model, store);
      if (change.kind === 'publish') return store.reveal(change.version, change.staging, change.digest);
      const [newest] = await store.versions();
      if (newest !== change.from)
        throw new ShoalError('SHOAL_ABORTED', `version ${change.from} is not the newest any more`);
      const directory = await store.directoryOf(change.to);
      await store.withdraw(change.from);
      return directory;
    });
    this.#servable = undefined;
    this.#progress = 'committed';
    await faultPoint('publish.commit.after');
    log(
      change.kind === 'publish'
        ? `${model.name} version ${change.version} was published by ${by}`
        : `${model.name} was rolled back from version ${change.from} to ${change.to} by ${by}`,
    );
    await onEnd(true);
  }

  async #fail(error: unknown): Promise<void> {
    if (this.isOver) return;
    this.#progress = 'failed';
    this.#error = isShoalError(error) ? error : new ShoalError('SHOAL_INTERNAL', messageOf(error));
    this.#stop.abort(error);
    const { change, model, log, by, onEnd } = this.#options;
    const what =
      change.kind === 'publish' ? `version ${change.version}` : `the rollback to version ${change.to}`;
    log(`${model.name}: ${what} of ${by} changed nothing here: ${describeError(error)}`, 'warn');
    const servable = this.#servable;
    this.#servable = undefined;
    const tried = (work: Promise<void> | undefined, failure: string) =>
      work?.catch((cause: unknown) => log(`${model.name}: ${failure}: ${messageOf(cause)}`, 'error'));
    await tried(servable?.close(0), `${what} was not unloaded`);
    if (change.kind === 'publish')
      await tried(change.staging.discard(), `what was received of ${what} was not removed`);
    await onEnd(false);
  }

  #file(index: number): FileEntry {
    const file = this.#publish().files[index];
    if (!file) throw invalid(`the version has no file ${index}`);
    return file;
  }

  #publish(): Extract<PublicationChange, { kind: 'publish' }> {
    const { change } = this.#options;
    if (change.kind === 'publish') return change;
    throw invalid('a rollback receives no files');
  }

  #require(state: PublicationState['state']): void {
    if (this.#progress === state) return;
    throw (
      this.#error ??
      new ShoalError('SHOAL_INVALID_ARGUMENT', `the publication is ${this.#progress}, not ${state}`)
    );
  }
}

/** Throws if the configuration of a model does not let it take the versions of this directory. */
export function checkTakes(
  { name, config }: ServedModel,
  { basePath }: Pick<VersionStore, 'basePath'>,
): void {
  const { fixed, policy = LATEST } = config;
  if (fixed)
    throw invalid(`${name} is one directory, ${fixed.directory}: it takes no versions`, {
      hint: 'Start shoal serve with the directory above it, which holds the versions.',
    });
  if (policy.kind === 'specific')
    throw invalid(`${name} serves the versions ${policy.versions.join(', ')} and no other`, {
      hint: 'Use the model_version_policy latest or all.',
    });
  if (resolve(config.basePath) !== basePath)
    throw new ShoalError('SHOAL_ABORTED', `the base path of ${name} has become ${config.basePath}`, {
      hint: 'Publish again.',
    });
}

/** Several ranges of a file arrive at a time, in any order. */
async function writeAt(path: string, bytes: Buffer, offset: number): Promise<void> {
  const file = await open(path, constants.O_WRONLY | constants.O_CREAT);
  try {
    for (let done = 0; done < bytes.byteLength; ) {
      const { bytesWritten } = await file.write(bytes, done, undefined, offset + done);
      done += bytesWritten;
    }
  } finally {
    await file.close();
  }
}
