/**
 * The directories of a job: `.shoal/JOB` (or `--dir`), with a directory for each task. A process without a cluster uses
 * that of worker 0, the chief of a local cluster: a cluster started there later resumes from its checkpoints.
 *
 *   .shoal/JOB/ROLE-INDEX/blobs         the blobs that the task stores for the job
 *   .shoal/JOB/worker-0/checkpoints     TensorFlow's view of the checkpoints
 */
import { join, resolve } from 'node:path';

export const jobDirectory = (job: string, dir?: string): string => resolve(dir ?? join('.shoal', job));

export const taskDirectory = (home: string, role: string, index: number): string =>
  join(home, `${role}-${index}`);

/** Whether a directory of a job, by its name, belongs to a task. */
export const isTaskDirectory = (name: string): boolean => /^(chief|worker|ps|evaluator)-\d+$/.test(name);

/** The directory of a process without a cluster. */
export const localDirectory = (home: string): string => taskDirectory(home, 'worker', 0);

/** The directory of the exports of a task; `directory` is that of the job's options. */
export const exportsIn = (taskDir: string, directory = 'export'): string => resolve(taskDir, directory);

/** The directory, in that of the exports, of those that an evaluator makes of its best checkpoints. */
export const BEST_EXPORTS = 'best';

/** The directory of the event files of an evaluator. */
export const evaluationsIn = (taskDir: string): string => join(taskDir, 'eval');

export const blobsIn = (taskDir: string): string => join(taskDir, 'blobs');
