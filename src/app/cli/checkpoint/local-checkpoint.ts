/** A TensorFlow checkpoint that is named by its path on the local disk. It needs no cluster and no manifest. */
import { stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { ShoalError } from '../../../base/errors/errors.js';
import { DirectoryReader } from '../../../tensorflow/formats/range-reader.js';
import { BundleReader } from '../../../tensorflow/formats/tensor-bundle/bundle-reader.js';
import { dataFile, indexFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import { findCheckpoint } from '../../../training/train/checkpoints/latest-checkpoint.js';
import type { PlaceFlags } from './flags.js';

/** Names of checkpoints in a store contain no slash. */
export const isPath = (name: string | undefined): name is string =>
  name !== undefined && (/[/\\]/.test(name) || name === '.' || name === '..');

export interface LocalFile {
  readonly file: string;
  /** Undefined if the file is missing. */
  readonly bytes: number | undefined;
}

export interface LocalCheckpoint {
  readonly path: string;
  readonly bundle: BundleReader;
  readonly files: readonly LocalFile[];
}

export async function withLocalCheckpoint<T>(
  path: string,
  flags: PlaceFlags,
  work: (checkpoint: LocalCheckpoint) => Promise<T>,
): Promise<T> {
  const given = (['job', 'agent', 'dir', 'dirs', 'store'] as const).filter(
    (name) => flags[name] !== undefined,
  );
  if (given.length > 0) {
    throw new ShoalError('SHOAL_CONFIG', `${path} is a path on this disk, so --${given[0]} does not apply`, {
      hint: 'name a checkpoint in a store without a slash: model.ckpt-500, 500 or latest',
    });
  }
  const found = await findCheckpoint(resolve(path));
  const [directory, prefix] = [dirname(found), basename(found)];
  await using reader = new DirectoryReader(directory);
  const bundle = await BundleReader.open(reader, prefix);
  const { shards } = bundle.index;
  const names = [indexFile(prefix), ...Array.from({ length: shards }, (_, i) => dataFile(prefix, i, shards))];
  const files = await Promise.all(
    names.map(async (file) => ({
      file,
      bytes: (await stat(join(directory, file)).catch(() => undefined))?.size,
    })),
  );
  return work({ path: found, bundle, files });
}
