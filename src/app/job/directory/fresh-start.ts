/**
 * Prepares a run that starts over (`--fresh`): the directories of the former run's tasks are moved aside, with their
 * checkpoints, summaries and exports. Nothing is deleted, and no other file in the directory is touched.
 */
import { type Dirent, readdirSync, renameSync } from 'node:fs';
import { isAbsolute, join, relative, resolve } from 'node:path';
import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import { makeDirectorySync } from '../../../base/files/directories.js';
import type { JobDefinition } from '../definition/define-job.js';
import { isTaskDirectory, localDirectory } from './task-directory.js';

/** Returns where the former run is kept; undefined if there was none. */
export function startFresh(job: JobDefinition, home: string, now = new Date()): string | undefined {
  refuseOutside(job, home);
  const tasks = taskFoldersIn(home);
  if (tasks.length === 0) return undefined;
  const stamp = now.toISOString().slice(0, 19).replaceAll(':', '-');
  let target = join(home, `previous-${stamp}`);
  // An existing directory is not created.
  for (let i = 2; makeDirectorySync(target).length === 0; i++) target = join(home, `previous-${stamp}-${i}`);
  moveAll(tasks, home, target);
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

/** All or none: manifests without their data would be useless. */
function moveAll(names: readonly string[], from: string, to: string): void {
  const moved: string[] = [];
  try {
    for (const name of names) {
      renameSync(join(from, name), join(to, name));
      moved.push(name);
    }
  } catch (cause) {
    for (const name of moved) renameSync(join(to, name), join(from, name));
    throw new ShoalError(
      'SHOAL_CONFIG',
      `--fresh: ${join(from, names[moved.length] ?? '')} cannot be moved: ${messageOf(cause)}`,
      {
        hint: 'move the directories of the tasks yourself, or use another --dir',
        cause,
      },
    );
  }
}

function taskFoldersIn(home: string): readonly string[] {
  let entries: readonly Dirent[];
  try {
    entries = readdirSync(home, { withFileTypes: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  const tasks = entries.filter(({ name }) => isTaskDirectory(name));
  const linked = tasks.find((entry) => entry.isSymbolicLink());
  if (linked) {
    throw new ShoalError('SHOAL_CONFIG', `--fresh: ${join(home, linked.name)} is a symbolic link`, {
      hint: 'move its target away and remove the link, or use another --dir',
    });
  }
  return tasks.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}
