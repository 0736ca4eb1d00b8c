/**
 * Prepares a run that starts over (`--fresh`): the directories of the former run's tasks are moved aside, with their
 * checkpoints, summaries and exports. Nothing is deleted, and no other file in the directory is touched.
 */
import { readdirSync, renameSync } from 'node:fs';
import { isAbsolute, join, relative, resolve } from 'node:path';
import { ShoalError } from '../errors/errors.js';
import { makeDirectorySync } from '../files/directories.js';
import type { JobDefinition } from './define-job.js';
import { localDirectory } from './task-directory.js';

const TASK_DIRECTORY = /^(chief|worker|ps|evaluator)-\d+$/;

/** Returns where the former run is kept; undefined if there was none. */
export function startFresh(job: JobDefinition, home: string, now = new Date()): string | undefined {
  refuseOutside(job, home);
  const tasks = foldersIn(home).filter((name) => TASK_DIRECTORY.test(name));
  if (tasks.length === 0) return undefined;
  const stamp = now.toISOString().slice(0, 19).replaceAll(':', '-');
  let target = join(home, `previous-${stamp}`);
  // An existing directory is not created.
  for (let i = 2; makeDirectorySync(target).length === 0; i++) target = join(home, `previous-${stamp}-${i}`);
  for (const name of tasks) renameSync(join(home, name), join(target, name));
  return target;
}

/** Checkpoints outside of the tasks' directories may be shared: they are not moved, and the job would resume from them. */
function refuseOutside({ name, train: { checkpoint } }: JobDefinition, home: string): void {
  const { store = 'peers:', directory = '' } = checkpoint ?? {};
  const task = localDirectory(home);
  const path = relative(task, resolve(task, directory));
  const isOutside = path.startsWith('..') || isAbsolute(path);
  const where = store.startsWith('file:') ? store : isOutside ? directory : undefined;
  if (where === undefined) return;
  throw new ShoalError('SHOAL_CONFIG', `--fresh: job ${name} keeps its checkpoints in ${where}`, {
    hint: 'they may belong to others and are not moved; move them away, or name another directory in train.checkpoint',
  });
}

function foldersIn(home: string): readonly string[] {
  try {
    return readdirSync(home, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
