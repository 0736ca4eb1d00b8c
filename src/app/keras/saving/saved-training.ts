/** What a saved model has for further training: its architecture, how it was compiled, and a checkpoint. */
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { isShoalError, messageOf, ShoalError } from '../../../base/errors/errors.js';
import { makeDirectory } from '../../../base/files/directories.js';
import type { Compiled, CompileOptions } from '../training/compile.js';

/** TensorFlow's place for files that its loader ignores. */
const EXTRA = 'assets.extra';
const FILE = 'keras.json';
const FORMAT = 1;

interface TrainingFile {
  readonly format: number;
  /** Null if JSON cannot contain the model. */
  readonly architecture: object | null;
  readonly reason?: string;
  /** Undefined if it was not compiled, or with functions. */
  readonly compile?: CompileOptions;
}

export interface SavedTraining {
  readonly architecture: () => string;
  readonly compiled: Compiled | undefined;
  readonly checkpoint: (prefix: string) => Promise<void>;
}

const prefixIn = (directory: string): string => join(directory, EXTRA, 'training');

export async function saveTraining(directory: string, training: SavedTraining): Promise<void> {
  const extra = join(directory, EXTRA);
  await makeDirectory(extra);
  const saved = describe(training);
  if (saved.architecture) await training.checkpoint(prefixIn(directory));
  // Its presence means that the checkpoint is complete.
  const file = join(extra, FILE);
  await writeFile(`${file}.partial`, JSON.stringify(saved));
  await rename(`${file}.partial`, file);
}

function describe({ architecture, compiled }: SavedTraining): TrainingFile {
  const compile = compiled && plainOptions(compiled.options);
  try {
    return {
      format: FORMAT,
      architecture: JSON.parse(architecture()) as object,
      ...(compile && { compile }),
    };
  } catch (error) {
    if (!isShoalError(error, 'SHOAL_UNSUPPORTED')) throw error;
    return { format: FORMAT, architecture: null, reason: error.message };
  }
}

/** Options that JSON can contain: names and numbers. */
const plainOptions = (options: CompileOptions): CompileOptions | undefined =>
  isPlain(options) ? options : undefined;

const isPlain = (value: unknown): boolean => {
  if (typeof value !== 'object' || value === null) return typeof value !== 'function';
  const isLiteral = Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype;
  return isLiteral && Object.values(value).every(isPlain);
};

export async function readTraining(directory: string): Promise<{
  readonly architecture: object;
  readonly compile: CompileOptions | undefined;
  readonly checkpoint: string;
}> {
  const file = join(directory, EXTRA, FILE);
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (cause) {
    throw new ShoalError(
      'SHOAL_NOT_FOUND',
      `${directory} is not a model that Model.save wrote: ${messageOf(cause)}`,
      {
        cause,
        hint: 'loadSavedModel of shoal/saved-model loads any SavedModel to call it; it cannot be trained further.',
      },
    );
  }
  let saved: TrainingFile;
  try {
    saved = JSON.parse(text) as TrainingFile;
  } catch (cause) {
    throw new ShoalError('SHOAL_CORRUPT', `${file} is not JSON: ${messageOf(cause)}`, { cause });
  }
  if (saved.format !== FORMAT)
    throw new ShoalError(
      'SHOAL_VERSION_MISMATCH',
      `${file} has the format ${saved.format}; this release reads ${FORMAT}`,
    );
  const { architecture, compile, reason } = saved;
  if (architecture) return { architecture, compile, checkpoint: prefixIn(directory) };
  throw new ShoalError('SHOAL_UNSUPPORTED', `${directory} can be served but not trained further: ${reason}`, {
    hint: 'Make the model again in the program, and restore its weights with loadWeights.',
  });
}
