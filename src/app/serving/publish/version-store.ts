/**
 * The versions of a model on the disk of a serving machine. What does not serve has a hidden name beside the versions:
 *
 *     13/               a version
 *     .13.tmp-…         one that is being received or prepared (`saved-model/staging.ts`)
 *     .13.published     a file: version 13 came from a publisher, with the digest of its content
 *     .12.withdrawn     a version that was rolled back; polling does not see it
 *     .11.removed-…     one that is being removed
 */
import { lstat, readdir, readFile, rename, rm, statfs, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import * as v from 'valibot';
import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import { isSystemError } from '../../../base/errors/system-error.js';
import { syncDirectory } from '../../../distributed/store/disk/publish.js';
import { removeLeftovers, Staging } from '../../../training/saved-model/writing/staging.js';
import { finishRemovals, removeVersions } from '../../../training/saved-model/writing/versions.js';
import { versionsIn } from '../models/version-files.js';
import { manifestOf } from './manifest.js';

/** Left free on the disk. */
const RESERVE_BYTES = 16 << 20;

const MarkerSchema = v.pipe(v.string(), v.parseJson(), v.object({ digest: v.string() }));

export class VersionStore {
  readonly basePath: string;

  constructor(basePath: string) {
    this.basePath = basePath;
  }

  /** The directory of a version. */
  directoryOf(version: number): string {
    return join(this.basePath, String(version));
  }

  /** Highest first. */
  async versions(): Promise<readonly number[]> {
    return [...(await versionsIn(this.basePath))].sort((a, b) => b - a);
  }

  /** The versions that were rolled back. */
  async withdrawn(): Promise<readonly number[]> {
    const names = await readdir(this.basePath).catch((error: unknown) => {
      if (isSystemError(error) && error.code === 'ENOENT') return [];
      throw error;
    });
    return names.flatMap((name) => {
      const [, version] = /^\.(\d{1,15})\.withdrawn$/.exec(name) ?? [];
      return version === undefined ? [] : [Number(version)];
    });
  }

  /** The digest of a version's content. */
  async digestOf(version: number): Promise<string> {
    return (await this.#markedDigest(version)) ?? (await manifestOf(this.directoryOf(version))).digest;
  }

  /** Removes what publishers, or this server, left when they were killed. Only while no publication is under way. */
  async sweep(): Promise<void> {
    if ((await lstat(this.basePath).catch(() => undefined)) === undefined) return;
    await removeLeftovers(this.basePath, (name) => /^\d+$/.test(name));
    await finishRemovals(this.basePath);
  }

  /** A place for a version of so many bytes, if the disk has room for it. */
  async stage(version: number, bytes: number): Promise<Staging> {
    const staging = await Staging.open(this.directoryOf(version));
    try {
      const { bavail, bsize } = await statfs(this.basePath);
      const free = bavail * bsize;
      if (free < bytes + RESERVE_BYTES)
        throw new ShoalError(
          'SHOAL_NO_SPACE',
          `version ${version} has ${bytes} bytes; ${free} are free on the disk of ${this.basePath}`,
          { hint: 'Free some space, or keep fewer versions there: shoal serve --publish_keep=N' },
        );
      return staging;
    } catch (error) {
      await staging.discard();
      throw error;
    }
  }

  /** Gives a staged version its name: from here on it is there, whatever happens to this process. */
  async reveal(version: number, staging: Staging, digest: string): Promise<void> {
    await writeFile(this.#marker(version), `${JSON.stringify({ digest, at: new Date().toISOString() })}\n`);
    await staging.publish();
    // The loaded graph may read its assets again, from where it was loaded.
    const hasAssets = await lstat(join(staging.target, 'assets')).catch(() => undefined);
    if (hasAssets) await symlink(String(version), staging.directory);
  }

  /** Hides a version that is rolled back. */
  async withdraw(version: number): Promise<void> {
    await rename(this.directoryOf(version), this.#withdrawn(version));
    await syncDirectory(this.basePath);
  }

  /**
   * Removes published versions, except the newest `keep` and those in use, and the withdrawn ones below the newest. A
   * version that did not come from a publisher is never removed.
   */
  async removeOld(keep: number, isInUse: (version: number) => boolean): Promise<readonly number[]> {
    const versions = await this.versions();
    const isPublished = await this.#publishedVersions();
    const old = keep === 0 ? [] : versions.slice(keep);
    const due = old.filter((version) => isPublished(version) && !isInUse(version));
    await removeVersions(
      due.map((version) => ({ version, path: this.directoryOf(version) })),
      this.basePath,
    );
    const [newest = 0] = versions;
    const hidden = (await this.withdrawn()).filter((version) => version < newest && isPublished(version));
    for (const version of hidden) await rm(this.#withdrawn(version), { recursive: true, force: true });
    for (const version of [...due, ...hidden]) await rm(this.#marker(version), { force: true });
    return due;
  }

  async #publishedVersions(): Promise<(version: number) => boolean> {
    const names = new Set(await readdir(this.basePath));
    return (version) => names.has(`.${version}.published`);
  }

  async #markedDigest(version: number): Promise<string | undefined> {
    try {
      return v.parse(MarkerSchema, await readFile(this.#marker(version), 'utf8')).digest;
    } catch {
      // Written by hand, or damaged: the content itself is looked at.
      return undefined;
    }
  }

  #marker(version: number): string {
    return join(this.basePath, `.${version}.published`);
  }

  #withdrawn(version: number): string {
    return join(this.basePath, `.${version}.withdrawn`);
  }
}

/** An error of the disk, with the version and the directory. */
export function diskError(version: number, directory: string, error: unknown): unknown {
  if (!isSystemError(error)) return error;
  const isFull = error.code === 'ENOSPC' || error.code === 'EDQUOT';
  return new ShoalError(
    isFull ? 'SHOAL_NO_SPACE' : 'SHOAL_UNREACHABLE',
    `version ${version} cannot be written to ${dirname(directory)}: ${messageOf(error)}`,
    {
      cause: error,
      ...(isFull ? { hint: 'Free some space on that machine. What was received is removed.' } : {}),
    },
  );
}
