/** Helpers for blob sources: bytes in memory as a source, deadlines, range checks. */
import { throwIfAborted, withDeadline } from '../../base/async/deadline.js';
import { crc32c } from '../../base/bytes/crc32c.js';
import { invalid, ShoalError } from '../../base/errors/errors.js';
import type { BlobDigest, BlobSource, StoreCallOptions, StoreReadOptions } from './store.js';

const STEP = 4 << 20;

/** Views of at most `step` bytes. */
export function* slices(bytes: Uint8Array, step = STEP): Generator<Uint8Array> {
  for (let at = 0; at < bytes.byteLength; at += step) yield bytes.subarray(at, at + step);
}

export function sourceOf(source: BlobSource | Uint8Array): BlobSource {
  if (!(source instanceof Uint8Array)) return source;
  return async function* (offset) {
    yield* slices(source.subarray(offset));
  };
}

/** Forwards chunks; fails when the signal fires or no chunk arrives in time. */
export async function* guarded(
  chunks: AsyncIterable<Uint8Array>,
  what: string,
  { signal, timeoutMs }: StoreCallOptions,
): AsyncGenerator<Uint8Array> {
  const iterator = chunks[Symbol.asyncIterator]();
  let over = false;
  try {
    for (;;) {
      throwIfAborted(what, signal);
      const next = await withDeadline(Promise.resolve(iterator.next()), what, { signal, timeoutMs });
      if (next.done) {
        over = true;
        return;
      }
      yield next.value;
    }
  } finally {
    // Does not wait for a source that is stuck; its later errors are ignored.
    if (!over) void Promise.resolve(iterator.return?.()).catch(() => {});
  }
}

export async function blobDigest(chunks: AsyncIterable<Uint8Array>): Promise<BlobDigest> {
  let [size, crc] = [0, 0];
  for await (const chunk of chunks) {
    size += chunk.byteLength;
    for (const piece of slices(chunk)) crc = crc32c(piece, crc);
  }
  return { size, crc32c: crc };
}

/** The range `[start, end)` to read of a blob of that size. */
export function rangeWithin(
  name: string,
  size: number,
  options: StoreReadOptions,
): readonly [number, number] {
  const { start, end } = checkedRange(options);
  if (start > size) throw invalid(`blob ${name} has ${size} bytes: cannot read from byte ${start}`);
  return [start, Math.min(end ?? size, size)];
}

export function checkedRange({ start = 0, end }: StoreReadOptions): {
  start: number;
  end: number | undefined;
} {
  const isCount = (value: number) => Number.isSafeInteger(value) && value >= 0;
  if (!isCount(start) || (end !== undefined && (!isCount(end) || end < start))) {
    throw invalid(`[${start}, ${end}) is not a valid byte range`);
  }
  return { start, end };
}

/** Refuses any other place than the only one of a store. */
export function refusePlace(url: string, place: string | undefined, here: string): void {
  if (place === undefined || place === here) return;
  throw new ShoalError('SHOAL_NOT_FOUND', `${url} has no place ${place}, only ${here}`);
}
