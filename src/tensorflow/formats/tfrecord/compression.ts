/** The compressions of TFRecord files, as streams of node:zlib. */
import type { Transform } from 'node:stream';
import { constants, createDeflate, createGunzip, createGzip, createInflate } from 'node:zlib';

export type Compression = 'none' | 'gzip' | 'zlib';

const CHUNK_BYTES = 256 << 10;

export function compressor(
  kind: Exclude<Compression, 'none'>,
  level = constants.Z_DEFAULT_COMPRESSION,
): Transform {
  const options = { level, chunkSize: CHUNK_BYTES };
  return kind === 'gzip' ? createGzip(options) : createDeflate(options);
}

export function decompressor(kind: Exclude<Compression, 'none'>): Transform {
  const options = { chunkSize: CHUNK_BYTES };
  return kind === 'gzip' ? createGunzip(options) : createInflate(options);
}
