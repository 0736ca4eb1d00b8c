/**
 * The layout of a table file, shared by its reader and its writer:
 *
 *   data blocks · metaindex block · index block · footer
 *
 * Each block is followed by a trailer: its compression (one byte) and the masked crc32c of block and that byte.
 * The footer has the handles (offset, size) of the metaindex and index blocks, padding, and a magic number.
 */
import { crc32c, maskCrc } from '../../../base/bytes/crc32c.js';
import type { ByteReader } from '../../../base/bytes/reader.js';
import type { ByteWriter } from '../../../base/bytes/writer.js';

export const TRAILER_BYTES = 5;
export const MAX_HANDLE_BYTES = 20;
export const TABLE_FOOTER_BYTES = 2 * MAX_HANDLE_BYTES + 8;
export const MAGIC = 0xdb4775248b80fb57n;

export const BlockCompression = { none: 0, snappy: 1 } as const;

/** The position of a block; the size excludes the trailer. */
export interface BlockHandle {
  readonly offset: number;
  readonly size: number;
}

export function writeHandle(writer: ByteWriter, handle: BlockHandle): void {
  writer.varint(handle.offset).varint(handle.size);
}

export function readHandle(reader: ByteReader): BlockHandle {
  const offset = reader.varint('the offset of a block');
  return { offset, size: reader.varint('the size of a block') };
}

/** The masked crc over a block and its compression byte. */
export function blockCrc(content: Uint8Array, compression: number): number {
  return maskCrc(crc32c(Uint8Array.of(compression), crc32c(content)));
}
