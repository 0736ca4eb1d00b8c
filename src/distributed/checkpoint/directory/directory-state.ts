/** Reads the `checkpoint` file of a directory, written by TensorFlow or Shoal. */
import { lstat, readFile } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { ShoalError } from '../../../base/errors/errors.js';
import {
  CHECKPOINT_STATE_FILE,
  type CheckpointState,
  parseCheckpointState,
  relativePaths,
  resolvePaths,
} from '../../../tensorflow/formats/checkpoint-state/checkpoint-state.js';
import { indexFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import { ViewRecord } from './view-record.js';

export interface DirectoryState {
  /** Paths inside the directory are relative to it. */
  readonly state: CheckpointState;
  readonly modifiedMs: number;
}

/** Undefined if there is no such file. */
export async function readDirectoryState(directory: string): Promise<DirectoryState | undefined> {
  const path = join(directory, CHECKPOINT_STATE_FILE);
  try {
    const text = await readFile(path, 'utf8');
    const state = relativePaths(resolvePaths(parseCheckpointState(text, path), directory), directory);
    return { state, modifiedMs: (await lstat(path)).mtimeMs };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw error;
  }
}

export interface NamedCheckpoint {
  readonly path: string;
  /** As in the `checkpoint` file: relative if it is inside the directory. */
  readonly name: string;
  /** Whether Shoal wrote its files, to show a checkpoint of its store. */
  readonly isShown: boolean;
  /** Whether Shoal has shown checkpoints in this directory before. */
  readonly hasView: boolean;
  readonly modifiedMs: number;
}

/** The checkpoint that the directory's `checkpoint` file names as the newest. */
export async function namedCheckpoint(directory: string, job?: string): Promise<NamedCheckpoint | undefined> {
  const found = await readDirectoryState(directory);
  const name = found?.state.modelCheckpointPath ?? '';
  if (!found || name === '') return undefined;
  const record = await ViewRecord.read(directory);
  const isShown = (await record.attemptOf(indexFile(name))) !== undefined;
  if (isShown && job !== undefined && record.job !== undefined && record.job !== job) {
    throw new ShoalError(
      'SHOAL_CONFIG',
      `${directory} shows the checkpoints of job ${record.job}, but this is job ${job}`,
      { hint: 'Give this job another directory (--dir), or move that one away.' },
    );
  }
  const path = isAbsolute(name) ? name : join(directory, name);
  return { path, name, isShown, hasView: !record.isEmpty, modifiedMs: found.modifiedMs };
}
