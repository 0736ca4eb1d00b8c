/** The names of a bundle's files, which share a prefix such as `dir/model.ckpt-10`. */
import { invalid } from '../../../base/errors/errors.js';

export function indexFile(prefix: string): string {
  return `${prefix}.index`;
}

export function dataFile(prefix: string, shard: number, shards: number): string {
  if (!(Number.isSafeInteger(shard) && shard >= 0 && shard < shards)) {
    throw invalid(`invalid shard ${shard} of ${shards}`);
  }
  return `${prefix}.data-${String(shard).padStart(5, '0')}-of-${String(shards).padStart(5, '0')}`;
}

/** The parts of a data file's name, or undefined if it is not one. */
export function parseDataFile(name: string): { prefix: string; shard: number; shards: number } | undefined {
  const match = /^(.*)\.data-(\d{5,})-of-(\d{5,})$/.exec(name);
  if (!match) return undefined;
  return { prefix: match[1]!, shard: Number(match[2]), shards: Number(match[3]) };
}
