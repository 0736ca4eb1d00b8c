/**
 * Native memory pressure. To V8 a tensor of 100 MB is a small object, and thousands could accumulate. This module
 * counts the bytes behind handles and triggers a garbage collection when they have grown much since the last one.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Below this many bytes no collection is triggered. */
const FLOOR_BYTES = 256 * 1024 * 1024;
/** A collection is triggered when the bytes have grown by this factor since the last one. */
const GROWTH = 1.5;

let heldBytes = 0;
let dueAt = FLOOR_BYTES;
let settling = false;
let collect: (() => void) | undefined;

export function nativeBytes(): number {
  return heldBytes;
}

export function holdBytes(bytes: number): void {
  heldBytes += bytes;
  if (heldBytes > dueAt && !settling) relieve();
}

export function releaseBytes(bytes: number): void {
  heldBytes -= bytes;
}

function relieve(): void {
  settling = true;
  try {
    collector()();
  } catch {
    // This V8 does not expose gc(): it collects on its own schedule.
  }
  // Finalizers free the memory in a later turn of the event loop.
  setImmediate(() =>
    setImmediate(() => {
      settling = false;
      dueAt = Math.max(FLOOR_BYTES, heldBytes * GROWTH);
    }),
  ).unref();
}

let lenders = 0;

/**
 * Runs work that creates and drops views of native memory, some megabytes at a time. V8 counts views as heap memory and
 * would collect frequently without finding garbage; this raises its limit meanwhile.
 */
export async function lendingViews<T>(work: () => Promise<T>): Promise<T> {
  if (lenders === 0) setFlagsFromString('--heap-growing-percent=300');
  lenders += 1;
  try {
    return await work();
  } finally {
    lenders -= 1;
    if (lenders === 0) setFlagsFromString('--heap-growing-percent=0');
  }
}

function collector(): () => void {
  if (!collect) {
    setFlagsFromString('--expose-gc');
    collect = runInNewContext('gc') as () => void;
    setFlagsFromString('--no-expose-gc');
  }
  return collect;
}
