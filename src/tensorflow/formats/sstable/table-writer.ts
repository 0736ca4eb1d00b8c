/**
 * Writes a table as TensorFlow does: the same block size, restart points and shortened keys in the index, so
 * that the same entries give the same bytes. Blocks are not compressed (TensorFlow's bundles are not either).
 *
 * The table is built in memory: it holds metadata, some dozens of bytes for each tensor.
 */
import { compareBytes } from '../../../base/bytes/compare.js';
import { ByteWriter } from '../../../base/bytes/writer.js';
import { invalid } from '../../../base/errors/errors.js';
import { BlockWriter } from './block.js';
import {
  BlockCompression,
  type BlockHandle,
  blockCrc,
  MAGIC,
  MAX_HANDLE_BYTES,
  TABLE_FOOTER_BYTES,
  writeHandle,
} from './layout.js';

const BLOCK_BYTES = 256 * 1024;
const RESTART_INTERVAL = 16;

/** A short key in [key, next), which separates two blocks. */
function separator(key: Uint8Array, next: Uint8Array): Uint8Array {
  const limit = Math.min(key.length, next.length);
  let at = 0;
  while (at < limit && key[at] === next[at]) at++;
  if (at === limit || key[at]! + 1 >= next[at]!) return key;
  const short = key.slice(0, at + 1);
  short[at]!++;
  return short;
}

/** A short key that is not less than `key`, for the end of the last block. */
function successor(key: Uint8Array): Uint8Array {
  const at = key.findIndex((byte) => byte !== 0xff);
  if (at < 0) return key;
  const short = key.slice(0, at + 1);
  short[at]!++;
  return short;
}

export class TableWriter {
  readonly #file = new ByteWriter(4096);
  readonly #data = new BlockWriter(RESTART_INTERVAL);
  readonly #index = new BlockWriter(1);
  #lastKey: Uint8Array | undefined;
  /** A written block whose index entry needs the next key. */
  #pending: BlockHandle | undefined;

  /** Adds an entry; keys must be in ascending byte order. The key is kept, not copied. */
  add(key: Uint8Array, value: Uint8Array): void {
    if (this.#lastKey !== undefined) {
      if (compareBytes(key, this.#lastKey) <= 0) {
        throw invalid('the keys of a table must be added in ascending order without duplicates', {
          hint: 'sort the entries by the bytes of their keys before adding them',
        });
      }
      if (key.length + value.length >= 2 * BLOCK_BYTES) this.#flush();
    }
    this.#indexPending(key);
    this.#lastKey = key;
    this.#data.add(key, value);
    if (this.#data.size >= BLOCK_BYTES) this.#flush();
  }

  /** The complete table; the writer must not be used afterwards. */
  finish(): Uint8Array {
    this.#flush();
    const metaindex = this.#writeBlock(new BlockWriter(RESTART_INTERVAL));
    this.#indexPending(undefined);
    const index = this.#writeBlock(this.#index);
    const footer = new ByteWriter(TABLE_FOOTER_BYTES);
    writeHandle(footer, metaindex);
    writeHandle(footer, index);
    footer.bytes(new Uint8Array(2 * MAX_HANDLE_BYTES - footer.length)).fixed64(MAGIC);
    this.#file.bytes(footer.peek());
    return this.#file.take();
  }

  #indexPending(next: Uint8Array | undefined): void {
    if (this.#pending === undefined) return;
    const last = this.#lastKey!;
    const handle = new ByteWriter(MAX_HANDLE_BYTES);
    writeHandle(handle, this.#pending);
    this.#index.add(next === undefined ? successor(last) : separator(last, next), handle.peek());
    this.#pending = undefined;
  }

  #flush(): void {
    if (!this.#data.isEmpty) this.#pending = this.#writeBlock(this.#data);
  }

  #writeBlock(block: BlockWriter): BlockHandle {
    const content = block.finish();
    const handle = { offset: this.#file.length, size: content.length };
    this.#file.bytes(content).u8(BlockCompression.none).fixed32(blockCrc(content, BlockCompression.none));
    return handle;
  }
}
