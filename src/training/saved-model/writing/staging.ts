/**
 * The directory in which an export is written, beside its target and under a hidden name, until one rename publishes
 * it. A reader of the target sees a complete export or none. A target that is not empty is never changed.
 *
 * The name contains the host, the container and the process of the writer, so that the next export can distinguish the leftovers of a
 * killed exporter from the files of a running one.
 */
import { randomBytes } from 'node:crypto';
import { lstat, mkdir, readdir, rename, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { processSpace } from '../../../../scripts/setup/process-space.mjs';
import { faultPoint } from '../../../base/async/fault-point.js';
import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import { makeDirectory } from '../../../base/files/directories.js';
import { syncDirectory } from '../../../distributed/store/disk/publish.js';

/** Before this age a staging directory of another host or container, or of a process id in use, is not removed. */
const STALE_MS = 24 * 60 * 60 * 1000;

/** The staging directories of this process. */
const live = new Set<string>();

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException | undefined)?.code ?? '';

export class Staging {
  readonly target: string;
  readonly directory: string;
  #state: 'open' | 'published' | 'discarded' = 'open';

  private constructor(target: string, directory: string) {
    this.target = target;
    this.directory = directory;
  }

  /** Starts an export to `target`; removes the leftovers of killed exporters to the same target. */
  static async open(path: string): Promise<Staging> {
    const target = resolve(path);
    await checkVacant(target);
    const parent = dirname(target);
    const prefix = `.${basename(target)}.tmp-`;
    const directory = join(parent, `${prefix}${owner()}-${process.pid}-${randomBytes(6).toString('hex')}`);
    try {
      await makeDirectory(parent);
      await removeLeftovers(parent, (name) => name === basename(target));
      await mkdir(directory);
    } catch (error) {
      throw writeError(target, error);
    }
    live.add(directory);
    return new Staging(target, directory);
  }

  /** Creates a directory within the export. */
  async folder(name: string): Promise<string> {
    const path = join(this.directory, name);
    await makeDirectory(path);
    return path;
  }

  /** Renames the export to its target. Nothing of it is visible before. */
  async publish(): Promise<string> {
    await faultPoint('export.publish.before');
    await checkVacant(this.target);
    try {
      for (const folder of await foldersIn(this.directory)) await syncDirectory(folder);
      // Fails on a directory that is not empty, which another exporter may have published meanwhile.
      await rename(this.directory, this.target);
    } catch (error) {
      if (['ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(codeOf(error))) throw occupied(this.target);
      throw writeError(this.target, error);
    }
    this.#state = 'published';
    live.delete(this.directory);
    await faultPoint('export.publish.after');
    await syncDirectory(dirname(this.target));
    return this.target;
  }

  /** Removes what was written, unless it is published. */
  async discard(): Promise<void> {
    if (this.#state !== 'open') return;
    this.#state = 'discarded';
    live.delete(this.directory);
    await rm(this.directory, { recursive: true, force: true });
  }
}

const occupied = (target: string): ShoalError =>
  new ShoalError('SHOAL_ALREADY_EXISTS', `${target} exists and is not empty`, {
    hint: 'A published version is never overwritten: export to a new directory, such as the next version number.',
  });

/** A write error of the disk, with the name of the export. */
export function writeError(target: string, error: unknown): unknown {
  if (error instanceof ShoalError) return error;
  const code = codeOf(error);
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return new ShoalError('SHOAL_NO_SPACE', `No space left for the export ${target}: ${messageOf(error)}`, {
      cause: error,
      hint: 'Free some space. Nothing of this export is left on the disk.',
    });
  }
  return code === ''
    ? error
    : new ShoalError('SHOAL_UNREACHABLE', `The export ${target} cannot be written: ${messageOf(error)}`, {
        cause: error,
      });
}

/** An empty directory is allowed, as with TensorFlow's builder: the rename replaces it. */
export async function checkVacant(target: string): Promise<void> {
  const found = await lstat(target).catch((error: unknown) => {
    if (['ENOENT', 'ENOTDIR'].includes(codeOf(error))) return undefined;
    throw writeError(target, error);
  });
  if (found && (!found.isDirectory() || (await readdir(target)).length > 0)) throw occupied(target);
}

/** A container may have the name of another one, whose processes this one does not see. */
export const owner = (): string => `${hostname().replace(/[^A-Za-z0-9.]/g, '_')}.${processSpace()}`;

/** Removes the leftovers of killed exporters to these targets of a directory. */
export async function removeLeftovers(parent: string, isMeant: (target: string) => boolean): Promise<void> {
  for (const name of await readdir(parent)) {
    const [, target, host, pid] = /^\.(.+)\.tmp-(.+)-(\d+)-[0-9a-f]{12}$/.exec(name) ?? [];
    if (target === undefined || !isMeant(target)) continue;
    const path = join(parent, name);
    if (live.has(path)) continue;
    if (host === owner() && !isOtherProcess(Number(pid))) await remove(path);
    else if (Date.now() - ((await lstat(path).catch(() => undefined))?.mtimeMs ?? 0) > STALE_MS)
      await remove(path);
  }
}

const remove = (path: string): Promise<void> => rm(path, { recursive: true, force: true });

/** Whether a process with this id, other than this one, exists. */
function isOtherProcess(pid: number): boolean {
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === 'EPERM';
  }
}

async function foldersIn(root: string): Promise<string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return [
    ...entries.filter((entry) => entry.isDirectory()).map((entry) => join(entry.parentPath, entry.name)),
    root,
  ];
}
