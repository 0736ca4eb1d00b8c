/**
 * The output of a connection, in order. Small pieces are copied into blocks that are used again once they are written;
 * large tensors are written from their memory, a bounded part at a time.
 */
import type { Duplex } from 'node:stream';
import type { HeldBytes } from '../../../base/bytes/lent-bytes.js';
import { DTYPES } from '../../../tensorflow/tensor/dtype.js';
import { padded } from './frame.js';

const BLOCK_BYTES = 64 * 1024;
/** The size of one write. V8 counts the view of TensorFlow's memory behind it as heap memory until it is written. */
const WRITE_BYTES = 1 << 20;
/** How many bytes the socket gets before earlier ones are written. */
const WINDOW_BYTES = 2 << 20;
/**
 * Less than this waits until earlier output is written, and then leaves in one write: with TLS every write costs a
 * record, a system call and a callback.
 */
const GATHER_BYTES = 128 * 1024;
const ZEROS = new Uint8Array(8);

type WordArray = NodeJS.TypedArray & { set(values: ArrayLike<unknown>, offset?: number): void };

/** Memory for small pieces. Every piece starts at a multiple of 8 bytes. */
class Block {
  readonly bytes: Uint8Array;
  readonly view: DataView;
  /** The end of the pieces. */
  used = 0;
  /** The end of the pieces that are in the queue or written. */
  queued = 0;
  /** How many ranges of the block are in the queue. */
  pending = 0;
  readonly #words = new Map<unknown, WordArray>();

  constructor(size: number) {
    const memory = new ArrayBuffer(size);
    this.bytes = new Uint8Array(memory);
    this.view = new DataView(memory);
    for (const { array: ArrayType } of Object.values(DTYPES)) {
      if (ArrayType) this.#words.set(ArrayType, new ArrayType(memory) as WordArray);
    }
  }

  /** Copies elements to an offset: arrays of one type are copied without a view of their bytes. */
  setWords(ArrayType: { readonly BYTES_PER_ELEMENT: number }, words: NodeJS.TypedArray, at: number): void {
    this.#words.get(ArrayType)?.set(words as ArrayLike<unknown>, at / ArrayType.BYTES_PER_ELEMENT);
  }
}

/** A part of the output. */
interface Piece {
  readonly held: HeldBytes;
  /** The end of what the socket has got. */
  at: number;
  readonly end: number;
  /** How many parts the socket is writing. */
  lent: number;
}

export class OutputQueue {
  readonly #socket: Duplex;
  readonly #onWritten: () => void;
  readonly #queue: Piece[] = [];
  #block = new Block(BLOCK_BYTES);
  #spare: Block | undefined;
  #inFlight = 0;
  #closed = false;
  /** The bytes that are not written yet. */
  pendingBytes = 0;

  constructor(socket: Duplex, onWritten: () => void) {
    this.#socket = socket;
    this.#onWritten = onWritten;
  }

  /** Reserves space for a small piece, with zeros in its padding. */
  reserve(byteLength: number): { readonly block: Block; readonly at: number } {
    const size = padded(byteLength);
    let block = this.#block;
    if (block.bytes.length - block.used < size) {
      this.#queueBlock();
      block =
        this.#spare !== undefined && size <= BLOCK_BYTES
          ? this.#spare
          : new Block(Math.max(size, BLOCK_BYTES));
      if (block === this.#spare) this.#spare = undefined;
      this.#block = block;
    }
    const at = block.used;
    block.used += size;
    this.pendingBytes += size;
    if (size > byteLength) {
      block.view.setUint32(block.used - 8, 0);
      block.view.setUint32(block.used - 4, 0);
    }
    return { block, at };
  }

  /** Appends memory that is held until it is written. */
  append(held: HeldBytes, byteLength: number): void {
    this.#queueBlock();
    this.#queue.push({ held, at: 0, end: byteLength, lent: 0 });
    this.pendingBytes += byteLength;
    const padding = padded(byteLength) - byteLength;
    if (padding === 0) return;
    this.#queue.push({ held: heldArray(ZEROS), at: 0, end: padding, lent: 0 });
    this.pendingBytes += padding;
  }

  /** Writes as much as the socket takes. False: the output is small and leaves after the write in progress. */
  flush(): boolean {
    if (this.#inFlight > 0 && this.pendingBytes - this.#inFlight < GATHER_BYTES) return false;
    this.#queueBlock();
    this.#pump();
    return true;
  }

  /** Drops all output. Memory that the socket still uses is released when the socket has closed. */
  close(): void {
    this.#closed = true;
    for (const { held, lent } of this.#queue.splice(0)) if (lent === 0) held.letGo();
  }

  #queueBlock(): void {
    const block = this.#block;
    if (block.used === block.queued) return;
    block.pending += 1;
    const held: HeldBytes = {
      owner: block,
      lend: (start, end) => ({ bytes: block.bytes.subarray(start, end), giveBack: () => {} }),
      letGo: () => this.#release(block),
    };
    this.#queue.push({ held, at: block.queued, end: block.used, lent: 0 });
    block.queued = block.used;
  }

  #release(block: Block): void {
    block.pending -= 1;
    if (block.pending > 0 || block.used > block.queued) return;
    block.used = 0;
    block.queued = 0;
    if (block.bytes.length === BLOCK_BYTES) {
      if (block !== this.#block) this.#spare = block;
    } else if (block === this.#block) {
      // A block for one long head does not stay in memory.
      this.#block = new Block(BLOCK_BYTES);
    }
  }

  #pump(): void {
    const socket = this.#socket;
    const isCorked = this.#queue.length > 1;
    if (isCorked) socket.cork();
    while (this.#queue.length > 0 && this.#inFlight < WINDOW_BYTES && !this.#closed) {
      const piece = this.#queue[0] as Piece;
      const start = piece.at;
      const size = Math.min(WRITE_BYTES, piece.end - start);
      piece.at += size;
      if (piece.at === piece.end) this.#queue.shift();
      piece.lent += 1;
      this.#inFlight += size;
      const { bytes, giveBack } = piece.held.lend(start, start + size);
      socket.write(bytes, (error) => {
        giveBack();
        this.#written(piece, size, error);
      });
    }
    if (isCorked) socket.uncork();
  }

  #written(piece: Piece, size: number, error: Error | null | undefined): void {
    piece.lent -= 1;
    if (piece.lent === 0 && (piece.at === piece.end || this.#closed)) piece.held.letGo();
    this.#inFlight -= size;
    this.pendingBytes -= size;
    // The socket reports the error itself.
    if (this.#closed || error) return;
    this.#onWritten();
    if (this.pendingBytes > this.#inFlight) this.flush();
  }
}

/** Bytes in JavaScript memory. */
export function heldArray(bytes: Uint8Array): HeldBytes {
  return {
    owner: bytes,
    lend: (start, end) => ({ bytes: bytes.subarray(start, end), giveBack: () => {} }),
    letGo: () => {},
  };
}
