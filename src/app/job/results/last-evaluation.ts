/** The results of the last evaluation of a job, from the directories of its tasks on this machine, after they have ended. */
import { existsSync } from 'node:fs';
import { describeError } from '../../../base/errors/errors.js';
import { readNote } from '../../../distributed/checkpoint/reading/job-note.js';
import { DirectoryStore, openFileStore } from '../../../distributed/store/disk/directory-store.js';
import type { EvaluationResult } from '../../../training/train/evaluation/decisions.js';
import { describeResults } from '../../../training/train/evaluation/evaluate.js';
import type { JobDefinition } from '../definition/define-job.js';
import { blobsIn, taskDirectory } from '../directory/task-directory.js';
import { decodeNote } from './evaluation-log.js';

/** The last evaluation that the evaluator or the chief knows; undefined if there is none. */
export async function lastEvaluation(
  { name, train }: JobDefinition,
  home: string,
): Promise<EvaluationResult | undefined> {
  const { store: url = 'peers:' } = train.checkpoint ?? {};
  const isOwn = url === 'peers:';
  const own = [taskDirectory(home, 'evaluator', 0), taskDirectory(home, 'worker', 0)].map(blobsIn);
  const stores = [
    ...own
      .filter((path) => existsSync(path))
      .map((path) => ({ store: new DirectoryStore(path), namespace: name })),
    ...(isOwn ? [] : [{ store: openFileStore(url), namespace: '' }]),
  ];
  const notes = await Promise.all(
    stores.flatMap(({ store, namespace }) =>
      [...new Set([namespace, ''])].map((within) =>
        readNote({ store, namespace: within, job: name, note: 'evaluations' }),
      ),
    ),
  );
  const [newest] = notes
    .filter((note) => note !== undefined)
    .sort((one, other) => other.revision - one.revision);
  return newest && decodeNote(newest.value).decisions.last;
}

/** The line with these results; none if there are none, or they cannot be read. */
export async function describeLastEvaluation(job: JobDefinition, home: string): Promise<readonly string[]> {
  try {
    const last = await lastEvaluation(job, home);
    return last ? [`evaluation of step ${last.step}: ${describeResults(last.results)}`] : [];
  } catch (error) {
    return [`the results of the evaluation cannot be read: ${describeError(error)}`];
  }
}
