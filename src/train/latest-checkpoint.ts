/** TensorFlow's `latest_checkpoint`: what the file `checkpoint` of a directory names. */
import { readFile } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { CHECKPOINT_STATE_FILE, parseCheckpointState } from '../formats/checkpoint-state/checkpoint-state.js';

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
