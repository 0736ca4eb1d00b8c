/** Reads `saved_model.pb`: which graphs a SavedModel has, by their tags, and what their signatures take and return. */

import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fromBinary } from '@bufbuild/protobuf';
import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import {
  type MetaGraphDef,
  type SavedModel,
  SavedModelSchema,
} from '../../../base/proto/generated/model_pb.js';
import { SAVED_MODEL_FILE, SAVED_MODEL_TEXT_FILE } from '../signatures/constants.js';
import { damagedExport } from './check-files.js';

/** Undefined when the model is in text form, which only TensorFlow itself parses. */
export async function readSavedModel(directory: string): Promise<SavedModel | undefined> {
  const path = join(directory, SAVED_MODEL_FILE);
  let bytes: Uint8Array;
  try {
    bytes = await readFile(path);
  } catch (cause) {
    if (await stat(join(directory, SAVED_MODEL_TEXT_FILE)).catch(() => undefined)) return undefined;
    const hasDirectory = await stat(directory).catch(() => undefined);
    const what = hasDirectory ? `${path} cannot be read` : `There is no directory ${directory}`;
    throw new ShoalError('SHOAL_NOT_FOUND', `${what}: ${messageOf(cause)}`, {
      cause,
      hint: 'Pass the directory of one version, which contains saved_model.pb.',
    });
  }
  let model: SavedModel;
  try {
    model = fromBinary(SavedModelSchema, bytes);
  } catch (cause) {
    throw damagedExport(path, `cannot be parsed: ${messageOf(cause)}`, cause);
  }
  if (model.metaGraphs.length === 0) throw damagedExport(path, 'contains no graph');
  return model;
}

export const tagsOf = ({ metaInfoDef }: MetaGraphDef): readonly string[] => metaInfoDef?.tags ?? [];

/** The graph with exactly these tags, as in TensorFlow. */
export function chooseMetaGraph(model: SavedModel, tags: readonly string[], directory: string): MetaGraphDef {
  const requested = new Set(tags);
  const found = model.metaGraphs.find((meta) => {
    const own = new Set(tagsOf(meta));
    return own.size === requested.size && [...own].every((tag) => requested.has(tag));
  });
  if (found) return found;
  const sets = model.metaGraphs.map((meta) => `[${tagsOf(meta).join(', ')}]`).join(', ');
  throw new ShoalError('SHOAL_NOT_FOUND', `${directory} has no graph with the tags [${tags.join(', ')}]`, {
    hint: `It has graphs with the tags ${sets}.`,
  });
}
