/**
 * The directories of a job: `.shoal/JOB` (or `--dir`), with a directory for each task. A process without a cluster uses
 * that of worker 0, the chief of a local cluster: a cluster started there later resumes from its checkpoints.
 *
 *   .shoal/JOB/ROLE-INDEX/blobs         the blobs that the task stores for the job
 *   .shoal/JOB/worker-0/checkpoints     TensorFlow's view of the checkpoints
 */
import { accessSync, constants, mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { messageOf, ShoalError } from '../errors/errors.js';

export const jobDirectory = (job: string, dir?: string): string => resolve(dir ?? join('.shoal', job));

export const taskDirectory = (home: string, role: string, index: number): string =>
  join(home, `${role}-${index}`);

/** The directory of a process without a cluster. */
export const localDirectory = (home: string): string => taskDirectory(home, 'worker', 0);

export const blobsIn = (taskDir: string): string => join(taskDir, 'blobs');

/** Creates the directory, or throws the reason why it cannot be used. `name` is the option that the user set. */
export function requireDirectory(path: string, name: string): void {
  try {
    mkdirSync(path, { recursive: true });
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
    case 'EACCES':
    case 'EPERM':
      return 'permission denied';
    case 'EROFS':
      return 'the file system is read-only';
    default:
      return messageOf(error);
  }
}
