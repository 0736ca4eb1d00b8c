/**
 * The versions of a model on the disk of a serving machine. What does not serve has a hidden name beside the versions:
 *
 *     13/               a version
 *     .13.tmp-…         one that is being received or prepared (`saved-model/staging.ts`)
 *     .13.published     a file: version 13 came from a publisher, with the digest of its content and a seal of its files
 *     .12.withdrawn     a version that was rolled back; polling does not see it
 *     .11.removed-…     one that is being removed
 *
 * A `.published` file counts only as long as its seal is that of the directory: who copies other files there replaces the
 * version, and it is theirs.
 */
import { lstat, readdir, readFile, rename, rm, statfs, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import * as v from 'valibot';
import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import { isSystemError } from '../../../base/errors/system-error.js';
import { syncDirectory } from '../../../distributed/store/disk/publish.js';
import { checkVacant, removeLeftovers, Staging } from '../../../training/saved-model/writing/staging.js';
import {
  finishRemovals,
  removeVersions,
  versionOfName,
} from '../../../training/saved-model/writing/versions.js';
import { versionsIn } from '../models/version-files.js';
import { manifestOf, sealOf } from './manifest.js';

/** Left free on the disk. */
const RESERVE_BYTES = 16 << 20;

const MarkerSchema = v.pipe(v.string(), v.parseJson(), v.object({ digest: v.string(), seal: v.string() }));

export class VersionStore {
  readonly basePath: string;

  constructor(basePath: string) {
    this.basePath = basePath;
  }

  /** Highest first. */
  async versions(): Promise<readonly number[]> {
    return [...(await versionsIn(this.basePath)).keys()].sort((a, b) => b - a);
  }

  /** The directory of a version that is on the disk. */
  async directoryOf(version: number): Promise<string> {
    const found = (await versionsIn(this.basePath)).get(version);
    if (found !== undefined) return found;
    throw new ShoalError('SHOAL_NOT_FOUND', `version ${version} is not on the disk of ${this.basePath}`);
  }

  /** The versions that were rolled back. */
  async withdrawn(): Promise<readonly number[]> {
    return (await this.#names()).flatMap((name) => hiddenVersion(name, 'withdrawn') ?? []);
  }

  /** The digest of a version's content. */
  async digestOf(version: number): Promise<string> {
    const directory = await this.directoryOf(version);
    return (await this.#publishedDigest(version, directory)) ?? (await manifestOf(directory)).digest;
  }

  /** Removes what publishers, or this server, left when they were killed. Only while no publication is under way. */
  async sweep(): Promise<void> {
    if ((await lstat(this.basePath).catch(() => undefined)) === undefined) return;
    await removeLeftovers(this.basePath, (name) => versionOfName(name) !== undefined);
    await finishRemovals(this.basePath);
    const known = new Set([...(await this.versions()), ...(await this.withdrawn())]);
    for (const name of await this.#names()) {
      const version = hiddenVersion(name, 'published');
      if (version !== undefined && !known.has(version)) await rm(join(this.basePath, name), { force: true });
    }
  }

  /** A place for a version of so many bytes, if the disk has room for it. */
  async stage(version: number, bytes: number): Promise<Staging> {
    const staging = await Staging.open(this.#pathOf(version));
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

  /**
   * Gives a staged version its name: from here on it is there, whatever happens to this process. Returns its directory.
   * Refused if there is a newer one, which was copied there meanwhile.
   */
  async reveal(version: number, staging: Staging, digest: string): Promise<string> {
    const [newest = version] = await this.versions();
    if (newest > version)
      throw new ShoalError(
        'SHOAL_ALREADY_EXISTS',
        `${this.basePath} has version ${newest}, which is newer than ${version}`,
      );
    await checkVacant(staging.target);
    const marker = this.#marker(version);
    try {
      const seal = await sealOf(staging.directory);
      await writeFile(marker, `${JSON.stringify({ digest, seal, at: new Date().toISOString() })}\n`);
      await staging.publish();
    } catch (error) {
      await rm(marker, { force: true });
      throw diskError(version, staging.directory, error);
    }
    // The loaded graph may read its assets again, from where it was loaded.
    const hasAssets = await lstat(join(staging.target, 'assets')).catch(() => undefined);
    if (hasAssets) await symlink(String(version), staging.directory);
    return staging.target;
  }

  /** Hides a version that is rolled back. */
  async withdraw(version: number): Promise<void> {
    await rename(await this.directoryOf(version), this.#withdrawn(version));
    await syncDirectory(this.basePath);
  }

  /**
   * Removes published versions, except the newest `keep` and those in use, and the withdrawn ones below the newest. A
   * version that did not come from a publisher is never removed.
   */
  async removeOld(
    keep: number,
    isInUse: (version: number, directory: string) => Promise<boolean>,
  ): Promise<readonly number[]> {
    const versions = await this.versions();
    const due: { readonly version: number; readonly path: string }[] = [];
    for (const version of keep === 0 ? [] : versions.slice(keep)) {
      const path = await this.directoryOf(version);
      const isPublished = (await this.#publishedDigest(version, path)) !== undefined;
      if (isPublished && !(await isInUse(version, path))) due.push({ version, path });
    }
    await removeVersions(due, this.basePath);
    const [newest = 0] = versions;
    for (const version of await this.withdrawn()) {
      const path = this.#withdrawn(version);
      if (version > newest || (await this.#publishedDigest(version, path)) === undefined) continue;
      await rm(path, { recursive: true, force: true });
      await rm(this.#marker(version), { force: true });
    }
    for (const { version } of due) await rm(this.#marker(version), { force: true });
    await this.#removeLinks();
    return due.map(({ version }) => version);
  }

  /** The links that `reveal` made to versions that are no longer there. */
  async #removeLinks(): Promise<void> {
    const versions = new Set(await this.versions());
    for (const name of await this.#names()) {
      const version = /^\.(\d+)\.tmp-/.exec(name)?.[1];
      if (version === undefined || versions.has(Number(version))) continue;
      const path = join(this.basePath, name);
      if ((await lstat(path).catch(() => undefined))?.isSymbolicLink()) await rm(path, { force: true });
    }
  }

  /** Undefined if no publisher sent what is in this directory. */
  async #publishedDigest(version: number, directory: string): Promise<string | undefined> {
    let text: string;
    try {
      text = await readFile(this.#marker(version), 'utf8');
    } catch (error) {
      if (isSystemError(error) && error.code === 'ENOENT') return undefined;
      throw error;
    }
    const marker = v.safeParse(MarkerSchema, text);
    // A directory that cannot be read is not the one that was published.
    const seal = await sealOf(directory).catch(() => undefined);
    return marker.success && marker.output.seal === seal ? marker.output.digest : undefined;
  }

  async #names(): Promise<readonly string[]> {
    return readdir(this.basePath).catch((error: unknown) => {
      if (isSystemError(error) && error.code === 'ENOENT') return [];
      throw error;
    });
  }

  #pathOf(version: number): string {
    return join(this.basePath, String(version));
  }

  #marker(version: number): string {
    return join(this.basePath, `.${version}.published`);
  }

  #withdrawn(version: number): string {
    return join(this.basePath, `.${version}.withdrawn`);
  }
}

/** The version of a hidden name such as `.13.withdrawn`. */
function hiddenVersion(name: string, kind: 'published' | 'withdrawn'): number | undefined {
  const suffix = `.${kind}`;
  return name.startsWith('.') && name.endsWith(suffix)
    ? versionOfName(name.slice(1, -suffix.length))
    : undefined;
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
