/** The directory of a model on a command line: that of its versions, or one version. */
import { stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import {
  SAVED_MODEL_FILE,
  SAVED_MODEL_TEXT_FILE,
} from '../../../training/saved-model/signatures/constants.js';
import { versionOfName } from '../../../training/saved-model/writing/versions.js';
import type { ModelConfig } from './model-config.js';

/** Versions that are not named by a number are version 1. */
export async function modelSource(path: string): Promise<ModelConfig> {
  const directory = resolve(path);
  if (!(await isVersion(directory))) return { name: basename(directory), basePath: directory };
  const own = basename(directory);
  const version = versionOfName(own);
  return {
    name: version === undefined ? own : basename(dirname(directory)),
    basePath: dirname(directory),
    fixed: { version: version ?? 1, directory },
  };
}

async function isVersion(directory: string): Promise<boolean> {
  for (const file of [SAVED_MODEL_FILE, SAVED_MODEL_TEXT_FILE])
    if (await stat(join(directory, file)).catch(() => undefined)) return true;
  return false;
}
