/**
 * Reads a table that is completely in memory. The file is not trusted: blocks must be in order, keys must ascend, every
 * block is checked against its crc, and the expanded size of keys is bounded relative to the file size, so that no file
 * makes the reader loop or exhaust memory.
 */
import { compareBytes } from '../../../base/bytes/compare.js';
import { ByteReader } from '../../../base/bytes/reader.js';
import { ShoalError } from '../../../base/errors/errors.js';
import { blockEntries, type TableEntry } from './block.js';
import {
  BlockCompression,
  type BlockHandle,
  blockCrc,
  MAGIC,
  readHandle,
  TABLE_FOOTER_BYTES,
  TRAILER_BYTES,
} from './layout.js';
import { snappyDecode } from './snappy.js';

/** Keys may expand to this many times the file size (plus a constant), far more than in any valid table. */
const MAX_KEY_EXPANSION = 64;
const KEY_ALLOWANCE = 1 << 20;

export class Table {
  readonly #bytes: Uint8Array;
  readonly #source: string;
  /** Per data block: an upper bound of its keys, and its position. */
  readonly #index: readonly { readonly lastKey: Uint8Array; readonly handle: BlockHandle }[];

  /** @param source the name of the file, for error messages. */
  constructor(bytes: Uint8Array, source: string) {
    this.#bytes = bytes;
    this.#source = source;
    this.#index = this.#readIndex(this.#readFooter());
  }

  /** All entries, in the order of their keys. Values are views of the file where it is not compressed. */
  *entries(): Generator<TableEntry> {
    let budget = this.#bytes.length * MAX_KEY_EXPANSION + KEY_ALLOWANCE;
    let last: Uint8Array | undefined;
    for (const { handle, lastKey } of this.#index) {
      for (const entry of this.#blockEntries(handle)) {
        budget -= entry.key.length;
        if (budget < 0) throw this.#corrupt('the keys unfold to far more than the file can hold');
        if (last !== undefined && compareBytes(last, entry.key) >= 0)
          throw this.#corrupt('its keys are not in ascending order');
        if (compareBytes(entry.key, lastKey) > 0) throw this.#corrupt('a key lies outside its block');
        last = entry.key;
        yield entry;
      }
    }
  }

  #corrupt(what: string): ShoalError {
    return new ShoalError('SHOAL_CORRUPT', `${this.#source}: ${what}`, {
      hint: 'the file is corrupt or not a TensorFlow table; use another copy of it',
    });
  }

  #readFooter(): BlockHandle {
    const start = this.#bytes.length - TABLE_FOOTER_BYTES;
    if (start < 0) throw this.#corrupt(`${this.#bytes.length} bytes are too few for a table`);
    const magic = new ByteReader(this.#bytes, this.#source, this.#bytes.length - 8).fixed64();
    if (magic !== MAGIC) throw this.#corrupt('it does not end with the magic number of a table');
    const reader = new ByteReader(this.#bytes, this.#source, start, this.#bytes.length - 8);
    readHandle(reader);
    return readHandle(reader);
  }

  #readIndex(handle: BlockHandle): { lastKey: Uint8Array; handle: BlockHandle }[] {
    const index: { lastKey: Uint8Array; handle: BlockHandle }[] = [];
    let end = 0;
    let budget = this.#bytes.length * MAX_KEY_EXPANSION + KEY_ALLOWANCE;
    for (const { key, value } of blockEntries(this.#block(handle), `${this.#source} (index block)`)) {
      const block = readHandle(new ByteReader(value, `${this.#source} (index block)`));
      const previous = index.at(-1);
      budget -= key.length;
      if (budget < 0) throw this.#corrupt('the keys unfold to far more than the file can hold');
      if (block.offset < end) throw this.#corrupt('its blocks overlap or are out of order');
      if (previous && compareBytes(previous.lastKey, key) >= 0)
        throw this.#corrupt('its index is not in ascending order');
      end = block.offset + block.size + TRAILER_BYTES;
      index.push({ lastKey: key, handle: block });
    }
    return index;
  }

  #blockEntries(handle: BlockHandle): Generator<TableEntry> {
    return blockEntries(this.#block(handle), `${this.#source} (block at ${handle.offset})`);
  }

  /** The content of a block, checked and decompressed. */
  #block({ offset, size }: BlockHandle): Uint8Array {
    if (offset + size + TRAILER_BYTES > this.#bytes.length) {
      throw this.#corrupt(`a block of ${size} bytes at ${offset} runs past the end of the file`);
    }
    const content = this.#bytes.subarray(offset, offset + size);
    const trailer = new ByteReader(this.#bytes, this.#source, offset + size);
    const compression = trailer.u8();
    if (trailer.fixed32() !== blockCrc(content, compression)) {
      throw this.#corrupt(`the block at ${offset} does not match its checksum`);
    }
    if (compression === BlockCompression.none) return content;
    if (compression === BlockCompression.snappy)
      return snappyDecode(content, `${this.#source} (block at ${offset})`);
    throw this.#corrupt(`the block at ${offset} has the unknown compression type ${compression}`);
  }
}
