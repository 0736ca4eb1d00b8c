/**
 * The directory in which an export is written, beside its target and under a hidden name, until one rename publishes it.
 * Whoever watches the target sees all of an export or none. A target that holds something is never touched.
 *
 * The name carries the host and the process that write there, so that the next export can tell what a killed exporter has
 * left from what a live one is writing.
 */
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { lstat, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { faultPoint } from '../async/fault-point.js';
import { messageOf, ShoalError } from '../errors/errors.js';

/** A staging directory of another host, or of a process whose number lives on, is left alone until it is this old. */
const STALE_MS = 24 * 60 * 60 * 1000;

/** Those that this process is writing to. */
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

  /** Begins an export to `target`; removes what killed exporters to the same target have left. */
  static async open(path: string): Promise<Staging> {
    const target = resolve(path);
    await checkVacant(target);
    const parent = dirname(target);
    const prefix = `.${basename(target)}.tmp-`;
    const directory = join(parent, `${prefix}${owner()}-${process.pid}-${randomBytes(6).toString('hex')}`);
    try {
      await mkdir(parent, { recursive: true });
      await removeLeftovers(parent, (name) => name === basename(target));
      await mkdir(directory);
    } catch (error) {
      throw writeError(target, error);
    }
    live.add(directory);
    return new Staging(target, directory);
  }

  /** A directory within the export; it is there when this resolves. */
  async folder(name: string): Promise<string> {
    const path = join(this.directory, name);
    await mkdir(path, { recursive: true });
    return path;
  }

  /** Puts the export in its place. Nobody sees any of it before. */
  async publish(): Promise<string> {
    await faultPoint('export.publish.before');
    await checkVacant(this.target);
    try {
      for (const folder of await foldersIn(this.directory)) await syncDirectory(folder);
      // Fails on a directory with something in it, which another exporter may have published since.
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

/** What cannot be written because of the disk, with the export's name. */
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
    : new ShoalError('SHOAL_UNREACHABLE', `The export ${target} can't be written: ${messageOf(error)}`, {
        cause: error,
      });
}

/** An empty directory may be there, as for TensorFlow's builder: the rename replaces it. */
export async function checkVacant(target: string): Promise<void> {
  const found = await lstat(target).catch((error: unknown) => {
    if (['ENOENT', 'ENOTDIR'].includes(codeOf(error))) return undefined;
    throw writeError(target, error);
  });
  if (found && (!found.isDirectory() || (await readdir(target)).length > 0)) throw occupied(target);
}

const owner = (): string => hostname().replace(/[^A-Za-z0-9.]/g, '_');

/** Removes what killed exporters to those targets of a directory have left. */
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

/** Whether a process of that number, other than this one, is there. */
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

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, constants.O_RDONLY);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
