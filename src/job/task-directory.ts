/**
 * Where a job keeps its files: `.shoal/JOB` (or `--dir`), with a directory for each task. A process that trains alone has
 * the place of worker 0, the chief of a local cluster: a cluster that is started there later continues from its checkpoints.
 *
 *   .shoal/JOB/ROLE-INDEX/blobs         what the task keeps for the job
 *   .shoal/JOB/worker-0/checkpoints     the checkpoints as TensorFlow shows them
 */
import { accessSync, constants, mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { messageOf, ShoalError } from '../errors/errors.js';

export const jobDirectory = (job: string, dir?: string): string => resolve(dir ?? join('.shoal', job));

export const taskDirectory = (home: string, role: string, index: number): string =>
  join(home, `${role}-${index}`);

/** The directory of a process that trains alone. */
export const loneDirectory = (home: string): string => taskDirectory(home, 'worker', 0);

export const blobsIn = (taskDir: string): string => join(taskDir, 'blobs');

/** Makes the directory, or says at once why it can't be used. `name` is what the user knows it by. */
export function requireDirectory(path: string, name: string): void {
  try {
    mkdirSync(path, { recursive: true });
    accessSync(path, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new ShoalError('SHOAL_CONFIG', `${name}: ${path} can not be used: ${reasonOf(error)}`, {
      hint: 'Name a directory that can be made and written to.',
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
    case 'EACCES':
    case 'EPERM':
      return 'permission denied';
    case 'EROFS':
      return 'the file system is read-only';
    default:
      return messageOf(error);
  }
}
