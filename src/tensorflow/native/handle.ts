/**
 * Ownership of native objects. A Handle owns one pointer and frees it once: on `dispose`, or when it is garbage
 * collected. Live handles are counted by kind and can be listed with the call site that created them, to find leaks.
 */
import { fileURLToPath } from 'node:url';
import { ShoalError } from '../../base/errors/errors.js';
import type { Pointer } from './library/c-api.js';
import { holdBytes, releaseBytes } from './library/pressure.js';

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

/** Counts a native object that is freed within one call and so needs no Handle. */
export function countHandle(kind: HandleKind, change: 1 | -1): void {
  counts.set(kind, (counts.get(kind) ?? 0) + change);
}

/** The number of live native objects, by kind and in total. */
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

/** Every live handle with its origin. */
export function listLiveHandles(): { kind: HandleKind; origin: string }[] {
  return [...live.values()].map(({ kind, origin }) => ({ kind, origin }));
}

/** Modules that create handles for others: the call site of interest is their caller. */
const INTERNAL_MODULES = ['native', 'tensor', 'graph', 'ops', 'variables', 'session'];
const FOLDER = new URL('.', import.meta.url);
/** The bundle is one folder: there, every frame of the package is skipped. */
const ownFolders = FOLDER.pathname.endsWith('/native/')
  ? INTERNAL_MODULES.map((name) => fileURLToPath(new URL(`../${name}/`, FOLDER)))
  : [fileURLToPath(FOLDER)];
const isOwn = (frame: string): boolean =>
  !frame.includes('.test.') && ownFolders.some((folder) => frame.includes(folder));

/**
 * The nearest stack frame outside these modules. Formatted at once: a captured stack would keep alive everything its
 * frames refer to.
 */
function callSite(): string {
  const { stack = '' } = new Error();
  const frames = stack
    .split('\n')
    .slice(1)
    .map((line) => line.trim().replace(/^at /, ''));
  return frames.find((frame) => !isOwn(frame)) ?? frames[0] ?? 'an unknown call site';
}

export interface HandleOptions {
  /** The object whose garbage collection frees the pointer. Default: the Handle. */
  readonly keeper?: object;
  /** The size of the native memory behind the pointer, if large. Default: 0. */
  readonly bytes?: number;
  /** What created it, for messages. Default: the call site. */
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
  /** The pointer, if disposed while held. */
  #owed: Pointer | undefined;

  /** `free` must not refer to the keeper, or the keeper would never be collected. */
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

  /** The error for use after `dispose`. */
  disposedError(): ShoalError {
    return new ShoalError('SHOAL_DISPOSED', `This ${this.kind} was disposed; created by ${this.#origin}`);
  }

  /** Transfers ownership without freeing: the new owner frees the pointer. */
  release(): Pointer {
    const pointer = this.pointer;
    this.#pointer = undefined;
    collected.unregister(this);
    forget(this.#id, this.kind);
    releaseBytes(this.#bytes);
    return pointer;
  }

  /** Holds the pointer for a native call: a `dispose` meanwhile takes effect only after the call releases it. */
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

  /** Frees the native object. Idempotent. */
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
