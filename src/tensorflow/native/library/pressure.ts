/**
 * Native memory pressure. To V8 a tensor of 100 MB is a small object, and thousands could accumulate. This module
 * counts the bytes behind handles and triggers a garbage collection when they have grown much since the last one. It
 * also keeps V8 from collecting for views of native memory only.
 */
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
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

/** How much V8's heap may grow, views of native memory and buffers of sockets included, before V8 collects it. */
const SLACK_BYTES = 96 * 1024 * 1024;
/** From about this size on, V8's own limit is as high. */
const LARGE_HEAP_BYTES = SLACK_BYTES / 2;

/**
 * V8 counts views of native memory, and the buffers that sockets read into, as heap memory. A heap of 20 MB may grow by
 * some 10 MB, and a task that exchanges tensors would collect several times per second without finding other garbage:
 * a third of its CPU time. This raises the limit of small heaps, after each collection anew. Called once, when the library
 * is loaded.
 */
export function keepHeapSlack(): void {
  const adjust = () => {
    const used = getHeapStatistics().used_heap_size;
    const percent = used < LARGE_HEAP_BYTES ? Math.ceil((100 * SLACK_BYTES) / used) : 0;
    setFlagsFromString(`--heap-growing-percent=${percent}`);
  };
  adjust();
  new PerformanceObserver((list) => {
    const collections = list.getEntries() as unknown as { readonly detail: { readonly kind: number } }[];
    if (collections.some(({ detail }) => detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR)) adjust();
  }).observe({ entryTypes: ['gc'] });
}

function collector(): () => void {
  if (!collect) {
    setFlagsFromString('--expose-gc');
    collect = runInNewContext('gc') as () => void;
    setFlagsFromString('--no-expose-gc');
  }
  return collect;
}
