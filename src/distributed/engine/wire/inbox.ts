/**
 * The messages that have arrived, in order. One that waits for tensors of the bulk channel holds up those behind it, so that
 * they are delivered in the order in which they were sent.
 */
import type { ArrivedMessage, WireMessage } from './decoder.js';

/** What a message in the queue costs beside its bytes. */
const MESSAGE_BYTES = 256;
const TENSOR_BYTES = 64;

export class Inbox {
  readonly #onMessage: (message: WireMessage) => void;
  #waiting: ArrivedMessage[] = [];
  #stopped = false;
  /** The size of the messages that wait, without tensors of the bulk channel. */
  waitingBytes = 0;

  constructor(onMessage: (message: WireMessage) => void) {
    this.#onMessage = onMessage;
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  push(message: ArrivedMessage): void {
    if (this.#waiting.length === 0 && message.missing === 0) {
      this.#deliver(message);
      return;
    }
    this.#waiting.push(message);
    this.waitingBytes += sizeOf(message);
  }

  /** Delivers what is complete. Called when a missing tensor has arrived. */
  advance(): void {
    while (!this.#stopped && this.#waiting[0]?.missing === 0) {
      const message = this.#waiting.shift() as ArrivedMessage;
      this.waitingBytes -= sizeOf(message);
      this.#deliver(message);
    }
  }

  /** Ends the delivery and frees the tensors that have arrived. */
  stop(): void {
    this.#stopped = true;
    for (const { tensors } of this.#waiting) for (const tensor of tensors) tensor?.dispose();
    this.#waiting = [];
    this.waitingBytes = 0;
  }

  #deliver({ header: { kind, id }, head, tensors }: ArrivedMessage): void {
    this.#onMessage({ kind, id, head, tensors: tensors as WireMessage['tensors'] });
  }
}

const sizeOf = ({ header, tensors }: ArrivedMessage): number =>
  MESSAGE_BYTES + header.headBytes + header.bodyBytes + TENSOR_BYTES * tensors.length;
