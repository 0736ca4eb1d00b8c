/**
 * Ownership of native objects. A Handle owns one pointer and frees it once: by `dispose`, or when the
 * garbage collector finds that nobody holds it any more. Live handles are counted by kind and can be
 * listed with the place that made them, so that a leak has a name.
 */
import { fileURLToPath } from 'node:url';
import { ShoalError } from '../errors/errors.js';
import type { Pointer } from './c-api.js';
import { holdBytes, releaseBytes } from './pressure.js';

export type HandleKind =
  | 'graph'
  | 'session'
  | 'tensor'
  | 'function'
  | 'server'
  | 'status'
  | 'buffer'
  | 'options';

interface LiveHandle {
  readonly kind: HandleKind;
  readonly origin: string;
}

const live = new Map<number, LiveHandle>();
const counts = new Map<HandleKind, number>();
let lastId = 0;

interface Orphan {
  readonly id: number;
  readonly kind: HandleKind;
  readonly bytes: number;
  readonly free: () => void;
}

const collected = new FinalizationRegistry<Orphan>(({ id, kind, bytes, free }) => {
  forget(id, kind);
  releaseBytes(bytes);
  free();
});

function remember(kind: HandleKind, origin: string): number {
  lastId += 1;
  live.set(lastId, { kind, origin });
  countHandle(kind, 1);
  return lastId;
}

function forget(id: number, kind: HandleKind): void {
  live.delete(id);
  countHandle(kind, -1);
}

/** Counts a native object that is freed within one call and so needs no Handle of its own. */
export function countHandle(kind: HandleKind, change: 1 | -1): void {
  counts.set(kind, (counts.get(kind) ?? 0) + change);
}

/** How many native objects of each kind are alive, and how many in all. */
export function liveHandles(): Readonly<Record<HandleKind | 'total', number>> {
  const result = {
    graph: 0,
    session: 0,
    tensor: 0,
    function: 0,
    server: 0,
    status: 0,
    buffer: 0,
    options: 0,
    total: 0,
  };
  for (const [kind, count] of counts) {
    result[kind] = count;
    result.total += count;
  }
  return result;
}

/** Every live handle with where it comes from. */
export function listLiveHandles(): { kind: HandleKind; origin: string }[] {
  return [...live.values()].map(({ kind, origin }) => ({ kind, origin }));
}

/** Rooms through which everybody makes handles: the place of interest is who called them. */
const THROUGH = ['native', 'tensor', 'graph', 'ops', 'variables', 'session'];
const ownFolders = THROUGH.map((room) => fileURLToPath(new URL(`../${room}/`, import.meta.url)));
const isOwn = (frame: string): boolean =>
  !frame.includes('.test.') && ownFolders.some((folder) => frame.includes(folder));

/**
 * The nearest frame of the stack that is not of these rooms. Made text at once: a stack that is kept as
 * V8 captured it keeps everything alive that its frames refer to.
 */
function callSite(): string {
  const { stack = '' } = new Error();
  const frames = stack
    .split('\n')
    .slice(1)
    .map((line) => line.trim().replace(/^at /, ''));
  return frames.find((frame) => !isOwn(frame)) ?? frames[0] ?? 'an unknown place';
}

export interface HandleOptions {
  /** The object whose collection frees the pointer; the Handle itself unless given. */
  readonly keeper?: object;
  /** Native memory behind the pointer, where it is much. */
  readonly bytes?: number;
  /** Where it comes from; the place in the program that made it unless given. */
  readonly origin?: string;
}

export class Handle {
  readonly kind: HandleKind;
  readonly #bytes: number;
  readonly #id: number;
  readonly #origin: string;
  readonly #free: (pointer: Pointer) => void;
  #pointer: Pointer | undefined;
  #holds = 0;
  /** The pointer when it was disposed of while held. */
  #owed: Pointer | undefined;

  /** `free` must not refer to the keeper, which would never be collected then. */
  constructor(
    kind: HandleKind,
    pointer: Pointer,
    free: (pointer: Pointer) => void,
    options: HandleOptions = {},
  ) {
    const { keeper = this, bytes = 0 } = options;
    this.kind = kind;
    this.#pointer = pointer;
    this.#free = free;
    this.#bytes = bytes;
    this.#origin = options.origin ?? callSite();
    this.#id = remember(kind, this.#origin);
    collected.register(keeper, { id: this.#id, kind, bytes, free: () => free(pointer) }, this);
    holdBytes(bytes);
  }

  get disposed(): boolean {
    return this.#pointer === undefined;
  }

  get pointer(): Pointer {
    if (this.#pointer === undefined) throw this.disposedError();
    return this.#pointer;
  }

  /** What a use after `dispose` throws. */
  disposedError(): ShoalError {
    return new ShoalError('SHOAL_DISPOSED', `This ${this.kind} was disposed; it comes from ${this.#origin}`);
  }

  /** Gives up ownership without freeing: the pointer's new owner frees it. */
  release(): Pointer {
    const pointer = this.pointer;
    this.#pointer = undefined;
    collected.unregister(this);
    forget(this.#id, this.kind);
    releaseBytes(this.#bytes);
    return pointer;
  }

  /** Lends the pointer to a native call: a `dispose` meanwhile frees it only when the call lets go. */
  hold(): Pointer {
    const pointer = this.pointer;
    this.#holds += 1;
    return pointer;
  }

  letGo(): void {
    this.#holds -= 1;
    if (this.#holds > 0 || this.#owed === undefined) return;
    const owed = this.#owed;
    this.#owed = undefined;
    this.#free(owed);
  }

  /** Frees the native object. Harmless when called again. */
  dispose(): void {
    if (this.#pointer === undefined) return;
    const pointer = this.release();
    if (this.#holds > 0) this.#owed = pointer;
    else this.#free(pointer);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
