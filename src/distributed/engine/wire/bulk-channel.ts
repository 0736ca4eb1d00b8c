/**
 * The bulk channel of a connection: the bytes of its large tensors, in the order of the messages, without anything between
 * them. Another thread moves them between the socket and TensorFlow's memory. Memory that it may use is held until it has
 * reported that the transfer is complete or the channel has ended: docs/design/031-bulk-channel.md.
 */
import type { HeldBytes } from '../../../base/bytes/lent-bytes.js';
import { messageOf } from '../../../base/errors/errors.js';
import type { Pointer } from '../../../tensorflow/native/library/c-api.js';
import type { TransferChannel, TransferThread } from '../../../tensorflow/native/threads/transfer-thread.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { Descriptor } from './frame.js';

/** Tensors are allocated ahead of their bytes up to this size together, or a single larger one. */
const AHEAD_BYTES = 128 << 20;

export interface BulkChannelOptions {
  readonly onSent: () => void;
  /** Called once, unless `close` was called before, with the reason. */
  readonly onBroken: (reason: string, cause?: unknown) => void;
}

interface Sending {
  readonly held: HeldBytes;
  readonly byteLength: number;
}

interface Expected {
  readonly descriptor: Descriptor;
  readonly done: (tensor: Tensor) => void;
}

interface Receiving extends Expected {
  readonly tensor: Tensor;
  readonly held: HeldBytes;
}

export class BulkChannel {
  readonly #channel: TransferChannel;
  readonly #options: BulkChannelOptions;
  #sending: Sending[] = [];
  /** Tensors without memory yet. */
  #expected: Expected[] = [];
  #receiving: Receiving[] = [];
  #receivingBytes = 0;
  #isClosed = false;
  #end = () => {};
  /** Resolves when the channel is closed and nothing uses its memory. */
  readonly ended: Promise<void>;
  /** Bytes that are not sent yet. */
  pendingBytes = 0;
  /** The bytes of complete tensors. */
  bytesRead = 0;
  bytesWritten = 0;

  /** @param descriptor a connected socket; it belongs to the channel */
  constructor(thread: TransferThread, descriptor: number, options: BulkChannelOptions) {
    this.#options = options;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    this.#channel = thread.open(descriptor, {
      onDone: (sent, received) => this.#done(sent, received),
      onEnded: (reason) => this.#ended(reason ?? 'it was closed'),
    });
  }

  get isReceiving(): boolean {
    return this.#receiving.length > 0;
  }

  /** Numbers that change when bytes are moved. */
  get sentParts(): number {
    return this.#channel.sentParts;
  }

  get receivedParts(): number {
    return this.#channel.receivedParts;
  }

  /** Sends bytes and lets go of them. */
  send(held: HeldBytes, address: Pointer, byteLength: number): void {
    if (this.#isClosed) {
      held.letGo();
      return;
    }
    this.#sending.push({ held, byteLength });
    this.pendingBytes += byteLength;
    this.#channel.send(address, byteLength);
  }

  /** Receives the next tensor. */
  receive(descriptor: Descriptor, done: (tensor: Tensor) => void): void {
    if (this.#isClosed) return;
    this.#expected.push({ descriptor, done });
    this.#receiveMore();
  }

  /** Ends all transfers. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#expected = [];
    this.#channel.close();
  }

  /** The pages of a tensor take up memory as they are filled. */
  #receiveMore(): void {
    for (let next = this.#expected[0]; next; next = this.#expected[0]) {
      const { dtype, shape, byteLength } = next.descriptor;
      if (this.#receiving.length > 0 && this.#receivingBytes + byteLength > AHEAD_BYTES) return;
      const tensor = Tensor.allocate(shape, dtype, { lazy: true });
      const held = tensor.holdBytes();
      this.#expected.shift();
      this.#receiving.push({ ...next, tensor, held });
      this.#receivingBytes += byteLength;
      this.#channel.receive(held.address as Pointer, byteLength);
    }
  }

  #done(sent: number, received: number): void {
    for (const { held, byteLength } of this.#sending.splice(0, sent)) {
      held.letGo();
      this.pendingBytes -= byteLength;
      this.bytesWritten += byteLength;
    }
    const arrived = this.#receiving.splice(0, received);
    for (const { held, descriptor } of arrived) {
      held.letGo();
      this.#receivingBytes -= descriptor.byteLength;
      this.bytesRead += descriptor.byteLength;
    }
    if (!this.#isClosed) {
      try {
        this.#receiveMore();
      } catch (cause) {
        this.#options.onBroken(messageOf(cause), cause);
      }
    }
    for (const { tensor, done } of arrived) {
      if (this.#isClosed) tensor.dispose();
      else done(tensor);
    }
    if (sent > 0 && !this.#isClosed) this.#options.onSent();
  }

  /** The thread does not use any memory any more. */
  #ended(reason: string): void {
    for (const { held } of this.#sending) held.letGo();
    for (const { held, tensor } of this.#receiving) {
      held.letGo();
      tensor.dispose();
    }
    this.#sending = [];
    this.#receiving = [];
    this.#expected = [];
    this.pendingBytes = 0;
    const isBroken = !this.#isClosed;
    this.#isClosed = true;
    this.#end();
    if (isBroken) this.#options.onBroken(reason);
  }
}
