/** Reads a range of a blob into the caller's memory, without a copy in stores that support it. */
import { ShoalError } from '../../../base/errors/errors.js';
import type { ReadIntoOptions, Store } from '../store.js';

export async function readInto(
  store: Store,
  name: string,
  into: Uint8Array,
  options: ReadIntoOptions = {},
): Promise<void> {
  if (store.readInto) return store.readInto(name, into, options);
  const { start = 0, onIdle, kept: _, ...others } = options;
  await copyInto(store.read(name, { ...others, start, end: start + into.byteLength }), into, onIdle);
}

/** Copies chunks into memory; fails unless they fill it exactly. */
export async function copyInto(
  chunks: AsyncIterable<Uint8Array>,
  into: Uint8Array,
  onIdle?: () => void,
): Promise<void> {
  try {
    let at = 0;
    for await (const chunk of chunks) {
      if (at + chunk.byteLength > into.byteLength) throw tooMany(into.byteLength);
      into.set(chunk, at);
      at += chunk.byteLength;
    }
    if (at !== into.byteLength) throw tooFew(at, into.byteLength);
  } finally {
    onIdle?.();
  }
}

export function tooFew(found: number, wanted: number): ShoalError {
  return new ShoalError('SHOAL_CORRUPT', `the blob has ${found} bytes in the range instead of ${wanted}`);
}

function tooMany(wanted: number): ShoalError {
  return new ShoalError('SHOAL_CORRUPT', `the read returned more than the ${wanted} requested bytes`);
}
