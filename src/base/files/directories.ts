/**
 * Creates directories with their parents. Node's own `mkdir` with `recursive` does not return on file systems that accept
 * no new directories, such as /proc: it creates the parents again and again.
 */
import { accessSync, constants, mkdirSync, statSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { messageOf, ShoalError } from '../errors/errors.js';

export interface MakeDirectoryOptions {
  /** The mode of the directories that are created; default: 0o777, less the umask. */
  readonly mode?: number;
}

/** Creates a directory and its missing parents; returns those that it created, the topmost first. */
export async function makeDirectory(
  path: string,
  options?: MakeDirectoryOptions,
): Promise<readonly string[]> {
  const target = resolve(path);
  let parents: readonly string[] = [];
  for (let isRetry = false; ; isRetry = true) {
    try {
      await mkdir(target, options);
      return [...parents, target];
    } catch (error) {
      if ((await stat(target).catch(() => undefined))?.isDirectory()) return parents;
      if (isRetry || !isMissingParent(error, target)) throw error;
    }
    parents = await makeDirectory(dirname(target), options);
  }
}

/** Like `makeDirectory`. */
export function makeDirectorySync(path: string, options?: MakeDirectoryOptions): readonly string[] {
  const target = resolve(path);
  let parents: readonly string[] = [];
  for (let isRetry = false; ; isRetry = true) {
    try {
      mkdirSync(target, options);
      return [...parents, target];
    } catch (error) {
      if (statSync(target, { throwIfNoEntry: false })?.isDirectory()) return parents;
      if (isRetry || !isMissingParent(error, target)) throw error;
    }
    parents = makeDirectorySync(dirname(target), options);
  }
}

const isMissingParent = (error: unknown, path: string): boolean =>
  (error as NodeJS.ErrnoException).code === 'ENOENT' && dirname(path) !== path;

/** Creates the directory, or throws the reason why it cannot be used. `name` is the option that the user set. */
export function requireDirectory(path: string, name: string, options?: MakeDirectoryOptions): void {
  try {
    makeDirectorySync(path, options);
    accessSync(path, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new ShoalError('SHOAL_CONFIG', `${name}: ${path} cannot be used: ${reasonOf(error)}`, {
      hint: 'Choose a directory that can be created and written to.',
      cause: error,
    });
  }
}

function reasonOf(error: unknown): string {
  switch ((error as NodeJS.ErrnoException).code) {
    case 'EEXIST':
      return 'it is a file';
    case 'ENOTDIR':
      return 'a part of the path is a file';
    case 'ENOENT':
      return 'its file system does not accept new directories';
    case 'EACCES':
    case 'EPERM':
      return 'permission denied';
    case 'EROFS':
      return 'the file system is read-only';
    default:
      return messageOf(error);
  }
}
