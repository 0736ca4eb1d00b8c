/** Whether a job is finished: at its last step, or stopped before it by itself; and what its tasks would still do: export or evaluate the last checkpoint. */
import { readdir } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { isShoalError } from '../../../base/errors/errors.js';
import { isSystemError } from '../../../base/errors/system-error.js';
import { healthOf, surveyCheckpoints } from '../../../distributed/checkpoint/reading/catalog.js';
import { findEnd } from '../../../distributed/checkpoint/reading/end-record.js';
import { readEvents } from '../../../tensorflow/formats/events/event-reader.js';
import { versionsOf } from '../../../training/saved-model/writing/versions.js';
import { checkpointInDirectory } from '../../../training/train/checkpoints/directory-checkpoint.js';
import type { JobDefinition } from '../../job/definition/define-job.js';
import {
  evaluationsIn,
  exportsIn,
  isTaskDirectory,
  localDirectory,
} from '../../job/directory/task-directory.js';
import { readClusterFile } from '../../job/launcher/cluster-file.js';
import { openStore } from '../checkpoint/open.js';
import { blobDirectories } from '../checkpoint/places.js';

export interface Finished {
  /** Whether nothing remains to be done, so that no task has to start. */
  readonly isComplete: boolean;
  readonly lines: readonly string[];
}

export interface FinishedOptions {
  /** The job's directory. */
  readonly home: string;
  /** The directory of the task that evaluates; undefined if none does. */
  readonly evaluator: string | undefined;
}

/**
 * What to print for a job that is finished; undefined if it is not. Looks only at this disk, and at no
 * running job. What the tasks would restore decides: their own directories, or a checkpoint that another program has
 * written.
 */
export async function describeFinished(
  job: JobDefinition,
  { home, evaluator }: FinishedOptions,
): Promise<Finished | undefined> {
  const { name, train } = job;
  const { checkpoint, lastStep } = train;
  if (!checkpoint || readClusterFile(home)) return undefined;
  const store = checkpoint.store?.startsWith('file:') ? checkpoint.store : undefined;
  const namespace = store === undefined ? name : '';
  const blobs = blobDirectories(home).filter((path) => isTaskDirectory(basename(dirname(path))));
  // A list of directories is separated by commas.
  if (store === undefined && (blobs.length === 0 || blobs.some((path) => path.includes(','))))
    return undefined;
  const place = store === undefined ? { dirs: blobs.join(',') } : { store };
  try {
    await using open = await openStore({ ...place, job: namespace, json: false }, { env: {} });
    const survey = await surveyCheckpoints(open.store, namespace);
    const [newest] = survey.manifests;
    if (!newest || (newest.job ?? name) !== name) return undefined;
    const end = await findEnd(open.store, { namespace, job: name, lastStep });
    const hasStopped = newest.step < lastStep;
    if (hasStopped && (!end || newest.step < end.step)) return undefined;
    const { missing } = await healthOf(open.store, namespace, newest);
    if (missing.length > 0) return undefined;
    const directory = resolve(localDirectory(home), checkpoint.directory ?? 'checkpoints');
    if (await checkpointInDirectory(survey, { directory, job: name })) return undefined;
    const remaining = [
      ...((await isExported(job, home, newest.step)) ? [] : ['export the model']),
      ...(!evaluator || (await isEvaluated(evaluator, newest.step)) ? [] : ['evaluate it']),
    ];
    const reached = hasStopped
      ? `it ended at step ${newest.step}, before its last step (${lastStep}), with the checkpoint ${newest.prefix}`
      : `its newest checkpoint, ${newest.prefix}, has reached its last step (${lastStep})`;
    const further = 2 * Math.max(newest.step, hasStopped ? lastStep : 0, 1);
    if (remaining.length > 0) {
      const lines = [`job ${name} is trained: ${reached}; its tasks start to ${remaining.join(' and to ')}`];
      return { isComplete: false, lines };
    }
    return {
      isComplete: true,
      lines: [
        `job ${name} is finished: ${reached}`,
        `to train further: --last-step ${further}; to start over: --fresh`,
      ],
    };
  } catch (error) {
    // Whatever cannot be read here, the tasks report when they restore.
    if (isShoalError(error) || (error as NodeJS.ErrnoException).code !== undefined) return undefined;
    throw error;
  }
}

/** Whether the chief's newest export is of this step, or the job has no exports. */
async function isExported(job: JobDefinition, home: string, step: number): Promise<boolean> {
  if (!job.export) return true;
  const [newest] = await versionsOf(job.name, exportsIn(localDirectory(home), job.export.directory));
  return newest?.origin.step === step;
}

/** Whether the task has written the results of this step. */
async function isEvaluated(taskDir: string, step: number): Promise<boolean> {
  const directory = evaluationsIn(taskDir);
  const files = await readdir(directory).catch((error: unknown) => {
    if (isSystemError(error) && error.code === 'ENOENT') return [];
    throw error;
  });
  for (const file of files) {
    for await (const event of readEvents(join(directory, file), { partial: true }))
      if (event.what.case === 'summary' && Number(event.step) === step) return true;
  }
  return false;
}
