/** Copies and views of native memory. */
import { setFlagsFromString } from 'node:v8';
import { countHandle } from './handle.js';
import type { Pointer } from './library/c-api.js';
import koffi from './library/ffi.js';
import { C, library } from './library/library.js';
import { checked } from './status.js';

/** A copy of `length` bytes at `pointer`. */
export function readBytes(pointer: Pointer, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  if (length > 0) library().libc.memcpy(bytes, pointer, length);
  return bytes;
}

export function copyBytes(
  to: Pointer | NodeJS.TypedArray,
  from: Pointer | NodeJS.TypedArray,
  length: number,
): void {
  if (length > 0) library().libc.memcpy(to, from, length);
}

const PAGE = 4096n;
const MADV_POPULATE_WRITE = 23;

/** The whole pages in a range of memory; undefined where `populate` has no effect. */
function pagesOf(pointer: Pointer, length: number): { start: bigint; size: number } | undefined {
  const start = ((pointer + PAGE - 1n) / PAGE) * PAGE;
  const end = ((pointer + BigInt(length)) / PAGE) * PAGE;
  return process.platform !== 'linux' || end <= start ? undefined : { start, size: Number(end - start) };
}

/**
 * Populates the pages of fresh memory on another thread. Contents are kept; a system without support populates pages
 * at the first access. Huge pages are not requested: a virtual machine that returns free memory to its host returns it
 * in such pages, so that each has to be allocated again (720 MB: 180 ms in small pages, 650 ms in huge ones).
 */
export function populate(pointer: Pointer, length: number): void {
  const pages = pagesOf(pointer, length);
  if (pages) library().libc.madvise.async(pages.start, pages.size, MADV_POPULATE_WRITE, () => {});
}

/**
 * An ArrayBuffer over native memory, without a copy. It is valid only as long as the memory: the owner detaches it
 * before freeing.
 */
export function viewBytes(pointer: Pointer, length: number): ArrayBuffer {
  const memory: ArrayBuffer = koffi.view(pointer, length);
  addresses.set(memory, pointer);
  return memory;
}

const addresses = new WeakMap<ArrayBufferLike, Pointer>();

/** The address of bytes in a view of native memory; undefined for other bytes. */
export function addressOf({ buffer, byteOffset }: Uint8Array): Pointer | undefined {
  const start = addresses.get(buffer);
  return start === undefined ? undefined : start + BigInt(byteOffset);
}

let detachBuffer: ((buffer: ArrayBuffer) => void) | undefined;

/**
 * Empties every view of the buffer, so that no code reads freed memory. Returns false if the engine does not support
 * it: buffers over foreign pointers cannot be transferred, so this uses a V8 intrinsic.
 */
export function detach(buffer: ArrayBuffer): boolean {
  try {
    if (detachBuffer === undefined) {
      setFlagsFromString('--allow-natives-syntax');
      try {
        detachBuffer = new Function('buffer', '%ArrayBufferDetach(buffer)') as (buffer: ArrayBuffer) => void;
      } finally {
        setFlagsFromString('--no-allow-natives-syntax');
      }
    }
    detachBuffer(buffer);
  } catch {
    // Without this intrinsic, the caller leaves the memory to the garbage collector.
  }
  return buffer.byteLength === 0;
}

/** A TF_Buffer is {data, length, deallocator}; this reads the first two. */
function bufferBytes(buffer: Pointer): Uint8Array {
  const head = new BigUint64Array(2);
  library().libc.memcpy(head, buffer, 16);
  return readBytes(head[0] as bigint, Number(head[1]));
}

/** Runs a call that fills a TF_Buffer, and returns a copy of its contents. */
export function fillBuffer(fill: (buffer: Pointer, status: Pointer) => void): Uint8Array {
  const buffer = C().TF_NewBuffer();
  countHandle('buffer', 1);
  try {
    checked((status) => fill(buffer, status));
    return bufferBytes(buffer);
  } finally {
    freeBuffer(buffer);
  }
}

export function newBuffer(bytes?: Uint8Array): Pointer {
  countHandle('buffer', 1);
  return bytes ? C().TF_NewBufferFromString(bytes, bytes.length) : C().TF_NewBuffer();
}

export function freeBuffer(buffer: Pointer): void {
  C().TF_DeleteBuffer(buffer);
  countHandle('buffer', -1);
}

/** Copies a TF_Buffer's bytes and frees it. */
export function takeBuffer(buffer: Pointer): Uint8Array {
  try {
    return bufferBytes(buffer);
  } finally {
    freeBuffer(buffer);
  }
}

/** The serialized OpList of all registered ops. */
export function allOps(): Uint8Array {
  countHandle('buffer', 1);
  return takeBuffer(C().TF_GetAllOpList());
}

/** TF_Output[] in C layout: a pointer and an int, padded to 16 bytes. */
export function packOutputs(
  outputs: readonly { readonly oper: Pointer; readonly index: number }[],
): BigUint64Array {
  const packed = new BigUint64Array(outputs.length * 2);
  outputs.forEach((output, i) => {
    packed[2 * i] = output.oper;
    packed[2 * i + 1] = BigInt(output.index);
  });
  return packed;
}

export function unpackOutputs(packed: BigUint64Array): { oper: Pointer; index: number }[] {
  return Array.from({ length: packed.length / 2 }, (_, i) => ({
    oper: packed[2 * i] as bigint,
    index: Number((packed[2 * i + 1] as bigint) & 0xffffffffn),
  }));
}
