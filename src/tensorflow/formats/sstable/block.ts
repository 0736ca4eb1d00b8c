/**
 * A block of a table: entries in key order, each key without the prefix it shares with the previous key. At a restart
 * point the key is complete; the restart points are listed at the end of the block.
 *
 *   entry: varint shared · varint unshared · varint value length · key rest · value
 *   block: entries · fixed32 restart offset … · fixed32 number of restarts
 */
import { ByteReader } from '../../../base/bytes/reader.js';
import { ByteWriter } from '../../../base/bytes/writer.js';

const NO_KEY = new Uint8Array(0);

export interface TableEntry {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

function sharedLength(a: Uint8Array, b: Uint8Array): number {
  const limit = Math.min(a.length, b.length);
  let shared = 0;
  while (shared < limit && a[shared] === b[shared]) shared++;
  return shared;
}

export class BlockWriter {
  readonly #writer = new ByteWriter(4096);
  readonly #interval: number;
  #restarts: number[] = [0];
  #sinceRestart = 0;
  #lastKey: Uint8Array = NO_KEY;

  constructor(restartInterval: number) {
    this.#interval = restartInterval;
  }

  get isEmpty(): boolean {
    return this.#writer.length === 0;
  }

  /** The size of the block if it were finished now. */
  get size(): number {
    return this.#writer.length + 4 * this.#restarts.length + 4;
  }

  add(key: Uint8Array, value: Uint8Array): void {
    let shared = 0;
    if (this.#sinceRestart < this.#interval) {
      shared = sharedLength(this.#lastKey, key);
    } else {
      this.#restarts.push(this.#writer.length);
      this.#sinceRestart = 0;
    }
    this.#writer
      .varint(shared)
      .varint(key.length - shared)
      .varint(value.length);
    this.#writer.bytes(key.subarray(shared)).bytes(value);
    this.#lastKey = key;
    this.#sinceRestart++;
  }

  /** The finished block; the writer is empty after it. */
  finish(): Uint8Array {
    for (const restart of this.#restarts) this.#writer.fixed32(restart);
    this.#writer.fixed32(this.#restarts.length);
    this.#restarts = [0];
    this.#sinceRestart = 0;
    this.#lastKey = NO_KEY;
    return this.#writer.take(4096);
  }
}

/**
 * The entries of a block, read in order without using the restart points, whose positions are only checked. Values are
 * views of the block, keys are copies.
 */
export function* blockEntries(block: Uint8Array, source: string): Generator<TableEntry> {
  const tail = new ByteReader(block, source, Math.max(0, block.length - 4));
  const restarts = tail.fixed32('the number of restart points');
  const end = block.length - 4 - restarts * 4;
  if (end < 0) throw tail.corrupt(`${restarts} restart points do not fit in ${block.length} bytes`);
  const reader = new ByteReader(block, source, 0, end);
  let last = NO_KEY;
  while (reader.remaining > 0) {
    const shared = reader.varint('the shared length of a key');
    const unshared = reader.varint('the length of a key');
    const valueLength = reader.varint('the length of a value');
    if (shared > last.length) {
      throw reader.corrupt(`a key shares ${shared} bytes with one of ${last.length} bytes`);
    }
    const rest = reader.take(unshared, 'a key');
    const key = new Uint8Array(shared + unshared);
    key.set(last.subarray(0, shared));
    key.set(rest, shared);
    last = key;
    yield { key, value: reader.take(valueLength, 'a value') };
  }
}
