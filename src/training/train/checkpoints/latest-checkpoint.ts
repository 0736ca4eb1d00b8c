/** Finds checkpoints on the local disk. */
import { readFile, stat } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { ShoalError } from '../../../base/errors/errors.js';
import {
  CHECKPOINT_STATE_FILE,
  parseCheckpointState,
} from '../../../tensorflow/formats/checkpoint-state/checkpoint-state.js';
import { indexFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';

/** TensorFlow's `latest_checkpoint`: the checkpoint that the file `checkpoint` of a directory names. */
export async function latestCheckpoint(
  directory: string,
  latestFilename = CHECKPOINT_STATE_FILE,
): Promise<string | undefined> {
  const path = join(directory, latestFilename);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  const { modelCheckpointPath } = parseCheckpointState(text, path);
  if (modelCheckpointPath === '') return undefined;
  return isAbsolute(modelCheckpointPath) ? modelCheckpointPath : join(directory, modelCheckpointPath);
}

/**
 * Resolves a path to a checkpoint: the path itself or one of its files, the newest of a directory, or the variables of a
 * SavedModel.
 */
export async function findCheckpoint(path: string): Promise<string> {
  const exists = async (file: string) => (await stat(file).catch(() => undefined)) !== undefined;
  const prefix = path.replace(/\.(index|meta|data-\d+-of-\d+)$/, '');
  for (const found of [prefix, join(path, 'variables', 'variables'), join(path, 'variables')]) {
    if (await exists(indexFile(found))) return found;
  }
  const latest = (await exists(path)) ? await latestCheckpoint(path) : undefined;
  if (latest !== undefined) return latest;
  throw new ShoalError('SHOAL_NOT_FOUND', `There is no checkpoint at ${path}`, {
    hint: 'Pass a checkpoint (dir/model.ckpt-500), a directory with a `checkpoint` file, or a SavedModel, on the local disk (of a cluster: on the disk of the chief).',
  });
}
