/**
 * Checks that the files of a SavedModel are complete before TensorFlow reads them: a partially copied export is
 * rejected with the name of the damaged file.
 */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fromBinary } from '@bufbuild/protobuf';
import { isShoalError, ShoalError } from '../../../base/errors/errors.js';
import {
  type AssetFileDef,
  AssetFileDefSchema,
  type MetaGraphDef,
} from '../../../base/proto/generated/model_pb.js';
import { DirectoryReader } from '../../../tensorflow/formats/range-reader.js';
import { BundleReader } from '../../../tensorflow/formats/tensor-bundle/bundle-reader.js';
import { dataFile, indexFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import {
  ASSETS_DIRECTORY,
  ASSETS_KEY,
  VARIABLES_DIRECTORY,
  VARIABLES_PREFIX,
} from '../signatures/constants.js';

export interface CheckOptions {
  /** Reads all variables and compares their checksums. Default: false; TensorFlow compares them when it restores. */
  readonly verify?: boolean;
  readonly signal?: AbortSignal;
}

const HINT = 'The export is damaged or was partially copied: copy it again, or use another version.';

export const damagedExport = (path: string, what: string, cause?: unknown): ShoalError =>
  new ShoalError('SHOAL_CORRUPT', `${path} ${what}`, {
    hint: HINT,
    cause,
  });

export async function checkFiles(
  directory: string,
  meta: MetaGraphDef,
  options: CheckOptions = {},
): Promise<void> {
  await checkVariables(directory, meta, options);
  for (const { filename } of assetsOf(meta)) {
    const path = join(directory, ASSETS_DIRECTORY, filename);
    const found = await stat(path).catch(() => undefined);
    if (!found?.isFile()) throw damagedExport(path, 'is missing');
  }
}

export function assetsOf(meta: MetaGraphDef): readonly AssetFileDef[] {
  if (meta.assetFileDef.length > 0) return meta.assetFileDef;
  const kind = meta.collectionDef[ASSETS_KEY]?.kind;
  if (kind?.case !== 'anyList') return [];
  return kind.value.value.map(({ value }) => fromBinary(AssetFileDefSchema, value));
}

/** Undefined when the model has no variables. */
export async function openVariables(
  files: DirectoryReader,
  directory: string,
  meta: MetaGraphDef,
): Promise<BundleReader | undefined> {
  const path = join(directory, VARIABLES_DIRECTORY, indexFile(VARIABLES_PREFIX));
  try {
    return await BundleReader.open(files, VARIABLES_PREFIX);
  } catch (error) {
    if (isShoalError(error, 'SHOAL_NOT_FOUND')) {
      if (!hasVariables(meta)) return undefined;
      throw damagedExport(path, 'is missing', error);
    }
    throw isShoalError(error, 'SHOAL_CORRUPT')
      ? damagedExport(path, `is damaged: ${error.message}`, error)
      : error;
  }
}

async function checkVariables(directory: string, meta: MetaGraphDef, options: CheckOptions): Promise<void> {
  const folder = join(directory, VARIABLES_DIRECTORY);
  await using files = new DirectoryReader(folder);
  const bundle = await openVariables(files, directory, meta);
  if (!bundle) return;
  const { index } = bundle;
  const ends = new Array<number>(index.shards).fill(0);
  for (const { pieces } of index.tensors.values())
    for (const { shard, offset, size } of pieces) ends[shard] = Math.max(ends[shard] ?? 0, offset + size);
  for (const [shard, end] of ends.entries()) {
    const path = join(folder, dataFile(VARIABLES_PREFIX, shard, index.shards));
    const found = await stat(path).catch(() => undefined);
    if (!found) throw damagedExport(path, 'is missing');
    if (found.size < end) throw damagedExport(path, `has ${found.size} bytes instead of ${end}`);
  }
  if (options.verify) await verifyVariables(bundle, folder, options.signal);
}

async function verifyVariables(bundle: BundleReader, folder: string, signal?: AbortSignal): Promise<void> {
  for (const name of bundle.index.tensors.keys()) {
    try {
      await bundle.verify(name, { signal });
    } catch (error) {
      if (!isShoalError(error, 'SHOAL_CORRUPT')) throw error;
      throw damagedExport(folder, `is damaged: ${error.message}`, error);
    }
  }
}

/** Whether the graph has variables that are restored: TensorFlow 1 lists them, TensorFlow 2 has objects for them. */
function hasVariables({ saverDef, collectionDef, objectGraphDef }: MetaGraphDef): boolean {
  if (!saverDef) return false;
  if (objectGraphDef) return objectGraphDef.nodes.some(({ kind }) => kind.case === 'variable');
  return collectionDef.variables !== undefined;
}
