/**
 * Opens the bulk channel of a connection. The side that makes the calls asks for it when it meets a large tensor, and opens
 * it as a connection of its own that begins with a token of the main connection:
 *
 *   caller                    service
 *   ask            ─────────▶
 *                  ◀───────── token (or refused)
 *   the token, over a connection of its own
 *                  ◀───────── attached: takes tensors from it
 *   ready          ─────────▶ takes tensors from it as well
 *
 * Nothing but the token is sent on that connection before the other side is known to take its bytes from the system
 * itself: so none of them can be in a buffer of Node.
 */
import { messageOf } from '../../../base/errors/errors.js';
import { closeDescriptor } from '../../../tensorflow/native/threads/descriptors.js';
import { type TransferThread, transferThread } from '../../../tensorflow/native/threads/transfer-thread.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import type { BulkChannel } from '../wire/bulk-channel.js';
import { BULK_BYTES, type Connection } from '../wire/connection.js';
import { mayBeBulk } from '../wire/frame.js';

const ASK = 1;
const TOKEN = 2;
const REFUSED = 3;
const ATTACHED = 4;
const READY = 5;

/** How the caller opens a connection that begins with the token. Resolves with a descriptor of its socket. */
export interface BulkDialer {
  open(token: Uint8Array): Promise<number>;
  /** The channel is open. */
  onOpen?(channel: BulkChannel): void;
  /** Tensors stay on the main connection. */
  onFailed(reason: string): void;
}

export interface BulkOffer {
  readonly token: Uint8Array;
  withdraw(): void;
}

/** Where the service expects connections that begin with a token. */
export interface BulkListener {
  /** `attach` is called once, with a descriptor that belongs to it; it returns undefined if it is too late. */
  offer(attach: (descriptor: number) => BulkChannel | undefined, onFailed: () => void): BulkOffer;
}

type Send = (head: Uint8Array) => void;

const head = (state: number, token: Uint8Array = new Uint8Array(0)): Uint8Array =>
  Uint8Array.of(state, ...token);

export class BulkCaller {
  readonly #connection: Connection;
  readonly #send: Send;
  readonly #dialer: BulkDialer;
  #state: 'none' | 'asked' | 'opening' | 'open' | 'failed' = 'none';
  #opened: Promise<number | undefined> = Promise.resolve(undefined);
  #thread: TransferThread | undefined;

  constructor(connection: Connection, send: Send, dialer: BulkDialer) {
    this.#connection = connection;
    this.#send = send;
    this.#dialer = dialer;
  }

  /** A run has these tensors. */
  meet(tensors: readonly (Tensor | undefined)[]): void {
    if (this.#state !== 'none') return;
    const isLarge = (tensor: Tensor | undefined) =>
      tensor !== undefined && tensor.byteLength >= BULK_BYTES && mayBeBulk(tensor.dtype, tensor.byteLength);
    if (tensors.some(isLarge)) void this.#ask();
  }

  async #ask(): Promise<void> {
    this.#state = 'asked';
    try {
      this.#thread = await transferThread();
      this.#send(head(ASK));
    } catch (error) {
      this.#fail(messageOf(error));
    }
  }

  /** Throws if the message makes no sense. */
  receive(message: Uint8Array): void {
    const [state] = message;
    if (state === REFUSED && (this.#state === 'asked' || this.#state === 'opening')) {
      this.#fail('the other task refused it');
    } else if (state === TOKEN && this.#state === 'asked') {
      this.#state = 'opening';
      this.#opened = this.#dial(message.slice(1));
    } else if (state === ATTACHED && this.#state === 'opening') {
      void this.#opened.then((descriptor) => this.#attach(descriptor));
    } else if (this.#state !== 'failed') {
      throw new Error(`message ${state} about a bulk channel, which is ${this.#state}`);
    }
  }

  async #dial(token: Uint8Array): Promise<number | undefined> {
    try {
      const descriptor = await this.#dialer.open(token);
      if (this.#state === 'opening' && !this.#connection.closed) return descriptor;
      closeDescriptor(descriptor);
    } catch (error) {
      this.#fail(messageOf(error));
    }
    return undefined;
  }

  #attach(descriptor: number | undefined): void {
    if (descriptor === undefined || this.#state !== 'opening' || this.#connection.closed) return;
    this.#state = 'open';
    const channel = this.#connection.receiveBulk(this.#thread as TransferThread, descriptor);
    this.#send(head(READY));
    this.#connection.sendBulk();
    this.#dialer.onOpen?.(channel);
  }

  #fail(reason: string): void {
    this.close();
    if (!this.#connection.closed) this.#dialer.onFailed(reason);
  }

  /** Called when the connection has ended. A channel that is open ends with it. */
  close(): void {
    if (this.#state === 'opening') {
      void this.#opened.then((descriptor) => {
        if (descriptor !== undefined) closeDescriptor(descriptor);
      });
    }
    this.#state = 'failed';
  }
}

export class BulkAnswerer {
  readonly #connection: Connection;
  readonly #send: Send;
  /** Undefined if tensors stay on the main connection. */
  readonly #listener: BulkListener | undefined;
  #state: 'none' | 'asked' | 'attached' | 'open' | 'refused' = 'none';
  #offer: BulkOffer | undefined;

  constructor(connection: Connection, send: Send, listener: BulkListener | undefined) {
    this.#connection = connection;
    this.#send = send;
    this.#listener = listener;
  }

  /** Throws if the message makes no sense. */
  receive([state]: Uint8Array): void {
    if (state === ASK && this.#state === 'none') void this.#answer();
    else if (state === READY && this.#state === 'attached') {
      this.#state = 'open';
      this.#connection.sendBulk();
    } else throw new Error(`message ${state} about a bulk channel, which is ${this.#state}`);
  }

  async #answer(): Promise<void> {
    this.#state = 'asked';
    const thread = this.#listener && (await transferThread().catch(() => undefined));
    if (!thread || !this.#listener) this.#refuse();
    else if (!this.#connection.closed) {
      const attach = (descriptor: number) => this.#attach(thread, descriptor);
      this.#offer = this.#listener.offer(attach, () => this.#refuse());
      this.#send(head(TOKEN, this.#offer.token));
    }
  }

  #attach(thread: TransferThread, descriptor: number): BulkChannel | undefined {
    if (this.#connection.closed || this.#state !== 'asked') {
      closeDescriptor(descriptor);
      return undefined;
    }
    this.#state = 'attached';
    const channel = this.#connection.receiveBulk(thread, descriptor);
    this.#send(head(ATTACHED));
    return channel;
  }

  #refuse(): void {
    if (this.#state !== 'asked') return;
    this.#state = 'refused';
    this.#send(head(REFUSED));
  }

  /** Called when the connection has ended. */
  close(): void {
    this.#offer?.withdraw();
  }
}
