/**
 * Native memory that the garbage collector cannot see. V8 knows a tensor of 100 MB as a small object and
 * would let thousands pile up; this counts the bytes behind handles and asks for a collection when they
 * have grown much since the last one.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Below this nobody is hurried. */
const FLOOR_BYTES = 256 * 1024 * 1024;
/** A collection is due when the bytes have grown by this factor since the last one settled. */
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
    // A V8 without this call: collections come in V8's own time.
  }
  // What the collection found is freed by finalizers, which run in a later turn of the event loop.
  setImmediate(() =>
    setImmediate(() => {
      settling = false;
      dueAt = Math.max(FLOOR_BYTES, heldBytes * GROWTH);
    }),
  ).unref();
}

let lenders = 0;

/**
 * Does work that lends native memory in views, some megabytes at a time. V8 counts each as its own, and would collect a
 * heap that is hardly larger, and in which there is no garbage, whenever some come and go: it may grow further meanwhile.
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
