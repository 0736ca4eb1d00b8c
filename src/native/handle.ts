/**
 * Ownership of native objects. A Handle owns one pointer and frees it once: by `dispose`, or when the
 * garbage collector finds that nobody holds it any more. Live handles are counted by kind and can be
 * listed with the place that made them, so that a leak has a name.
 */
import { ShoalError } from '../errors/errors.js';
import type { Pointer } from './c-api.js';

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
  readonly site: { readonly stack?: string };
}

const live = new Map<number, LiveHandle>();
const counts = new Map<HandleKind, number>();
let lastId = 0;

const collected = new FinalizationRegistry<{ id: number; kind: HandleKind; free: () => void }>((orphan) => {
  forget(orphan.id, orphan.kind);
  orphan.free();
});

function remember(kind: HandleKind, site: { readonly stack?: string }): number {
  lastId += 1;
  live.set(lastId, { kind, site });
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

/** Every live handle with the stack that made it. */
export function listLiveHandles(): { kind: HandleKind; createdAt: string }[] {
  return [...live.values()].map(({ kind, site }) => ({ kind, createdAt: describeSite(site) }));
}

const OWN_FILES = /[/\\](src|dist)[/\\](native|tensor|graph|session)[/\\]/;

function describeSite(site: { readonly stack?: string }): string {
  const frames = (site.stack ?? '')
    .split('\n')
    .slice(1)
    .map((line) => line.trim().replace(/^at /, ''));
  return frames.find((frame) => !OWN_FILES.test(frame)) ?? frames[0] ?? 'an unknown place';
}

export class Handle {
  readonly kind: HandleKind;
  readonly #id: number;
  readonly #site: { readonly stack?: string } = {};
  readonly #free: (pointer: Pointer) => void;
  #pointer: Pointer | undefined;

  /**
   * `keeper` is the object whose collection frees the pointer; the Handle itself unless given. `free`
   * must not refer to the keeper.
   */
  constructor(kind: HandleKind, pointer: Pointer, free: (pointer: Pointer) => void, keeper?: object) {
    this.kind = kind;
    this.#pointer = pointer;
    this.#free = free;
    Error.captureStackTrace(this.#site, Handle);
    this.#id = remember(kind, this.#site);
    collected.register(keeper ?? this, { id: this.#id, kind, free: () => free(pointer) }, this);
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
    return new ShoalError(
      'SHOAL_DISPOSED',
      `This ${this.kind} was disposed; it was made at ${describeSite(this.#site)}`,
    );
  }

  /** Gives up ownership without freeing: the pointer's new owner frees it. */
  release(): Pointer {
    const pointer = this.pointer;
    this.#pointer = undefined;
    collected.unregister(this);
    forget(this.#id, this.kind);
    return pointer;
  }

  /** Frees the native object. Harmless when called again. */
  dispose(): void {
    if (this.#pointer === undefined) return;
    this.#free(this.release());
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
