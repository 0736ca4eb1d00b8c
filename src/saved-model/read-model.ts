/** Reads `saved_model.pb`: which graphs a SavedModel has, by their tags, and what their signatures take and return. */

import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fromBinary } from '@bufbuild/protobuf';
import { messageOf, ShoalError } from '../errors/errors.js';
import { type MetaGraphDef, type SavedModel, SavedModelSchema } from '../proto/generated/model_pb.js';
import { SAVED_MODEL_FILE, SAVED_MODEL_TEXT_FILE } from './constants.js';

const HINT = 'The export is damaged or was copied in part: copy it again, or use another version.';

/** Undefined when the model is in text form, which only TensorFlow itself parses. */
export async function readSavedModel(directory: string): Promise<SavedModel | undefined> {
  const path = join(directory, SAVED_MODEL_FILE);
  let bytes: Uint8Array;
  try {
    bytes = await readFile(path);
  } catch (cause) {
    if (await stat(join(directory, SAVED_MODEL_TEXT_FILE)).catch(() => undefined)) return undefined;
    const hasDirectory = await stat(directory).catch(() => undefined);
    const what = hasDirectory ? `${path} can't be read` : `There is no directory ${directory}`;
    throw new ShoalError('SHOAL_NOT_FOUND', `${what}: ${messageOf(cause)}`, {
      cause,
      hint: 'Give the directory of one version, which has a saved_model.pb in it.',
    });
  }
  let model: SavedModel;
  try {
    model = fromBinary(SavedModelSchema, bytes);
  } catch (cause) {
    throw new ShoalError('SHOAL_CORRUPT', `${path} can't be parsed: ${messageOf(cause)}`, {
      cause,
      hint: HINT,
    });
  }
  if (model.metaGraphs.length === 0)
    throw new ShoalError('SHOAL_CORRUPT', `${path} holds no graph`, { hint: HINT });
  return model;
}

export const tagsOf = ({ metaInfoDef }: MetaGraphDef): readonly string[] => metaInfoDef?.tags ?? [];

/** The graph with just these tags, as TensorFlow chooses it. */
export function chooseMetaGraph(model: SavedModel, tags: readonly string[], directory: string): MetaGraphDef {
  const wanted = new Set(tags);
  const found = model.metaGraphs.find((meta) => {
    const own = new Set(tagsOf(meta));
    return own.size === wanted.size && [...own].every((tag) => wanted.has(tag));
  });
  if (found) return found;
  const sets = model.metaGraphs.map((meta) => `[${tagsOf(meta).join(', ')}]`).join(', ');
  throw new ShoalError('SHOAL_NOT_FOUND', `${directory} has no graph with the tags [${tags.join(', ')}]`, {
    hint: `It has graphs with the tags ${sets}.`,
  });
}
