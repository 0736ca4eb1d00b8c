/**
 * Looks at the directory of a version without loading it: is it complete, and has it changed since the last look? A
 * directory that is still being copied passes neither test: its files are shorter than the index of the variables says,
 * or they change from one look to the next.
 */
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '../../../base/errors/errors.js';
import { isSystemError } from '../../../base/errors/system-error.js';
import { checkFiles } from '../../../training/saved-model/loading/check-files.js';
import { chooseMetaGraph, readSavedModel } from '../../../training/saved-model/loading/read-model.js';
import { versionOfName } from '../../../training/saved-model/writing/versions.js';

/** Files that nobody has changed for so long are not being copied: one look is enough. */
export const SETTLED_MS = 5000;
/** A model has few files; a directory with more is something else. */
const MAX_FILES = 10_000;

export interface Look {
  /** Differs when any file was added, removed or written. */
  readonly fingerprint: string;
  /** When the last change was made, by the clock of the file system. */
  readonly changedAtMs: number;
}

/** The subdirectories of a base path that are versions, by number. Of `1` and `01`, the shorter one is version 1. */
export async function versionsIn(basePath: string): Promise<ReadonlyMap<number, string>> {
  try {
    const names = (await readdir(basePath, { withFileTypes: true }))
      .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
      .map(({ name }) => name)
      .sort((a, b) => b.length - a.length);
    return new Map(
      names.flatMap((name) => {
        const version = versionOfName(name);
        return version === undefined ? [] : [[version, join(basePath, name)] as const];
      }),
    );
  } catch (error) {
    if (isSystemError(error) && (error.code === 'ENOENT' || error.code === 'ENOTDIR')) return new Map();
    throw error;
  }
}

export async function lookAt(directory: string): Promise<Look> {
  const lines: string[] = [];
  let changedAtMs = 0;
  const walk = async (path: string): Promise<void> => {
    const found = await lstat(path, { bigint: true });
    lines.push(`${path}\0${found.ino} ${found.size} ${found.mtimeNs} ${found.ctimeNs}`);
    if (lines.length > MAX_FILES) throw new Error(`${directory} has more than ${MAX_FILES} files`);
    changedAtMs = Math.max(changedAtMs, Number(found.ctimeMs));
    if (!found.isDirectory() && path !== directory) return;
    const names = await readdir(path);
    for (const name of names.sort()) await walk(join(path, name));
  };
  await walk(directory);
  return { fingerprint: lines.join('\n'), changedAtMs };
}

/** What is missing in a directory; undefined if it is complete. */
export async function missingIn(directory: string, tags: readonly string[]): Promise<string | undefined> {
  try {
    const model = await readSavedModel(directory);
    if (model) await checkFiles(directory, chooseMetaGraph(model, tags, directory));
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}
