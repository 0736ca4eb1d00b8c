/**
 * The thread that moves bytes between sockets and native memory: `scripts/runtime/transfer-thread.mjs`. A process has one,
 * started at the first use. It does not keep the process alive.
 *
 * Memory that is passed to a channel must stay valid until the transfer is reported or the channel has ended.
 */
import { createRequire } from 'node:module';
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { messageOf, ShoalError } from '../../../base/errors/errors.js';
import { PACKAGE_ROOT } from '../../../base/files/package.js';
import type { Pointer } from '../library/c-api.js';
import { closeDescriptor, hasDescriptors, makePipe, writeByte } from './descriptors.js';

const THREAD = new URL('scripts/runtime/transfer-thread.mjs', PACKAGE_ROOT);
const MEMORY = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 4, codeRangeSizeMb: 8 };
/** Positions in the state that both threads see. */
const STOP = 0;
const WOKEN = 1;

/** Transfers of each direction are made and reported in order. */
export interface TransferEvents {
  /** So many more transfers are complete. */
  readonly onDone: (sent: number, received: number) => void;
  /** Called once: the thread uses neither the descriptor nor memory any more. Without a reason `close` was called. */
  readonly onEnded: (reason: string | undefined) => void;
}

export interface TransferChannel {
  send(pointer: Pointer, length: number): void;
  receive(pointer: Pointer, length: number): void;
  /** Ends all transfers and closes the descriptor; `onEnded` follows. */
  close(): void;
  /** Numbers that change when bytes are moved. */
  readonly sentParts: number;
  readonly receivedParts: number;
}

interface Report {
  readonly ready?: true;
  readonly done?: readonly { readonly id: number; readonly sent: number; readonly received: number }[];
  readonly ended?: readonly { readonly id: number; readonly reason: string | undefined }[];
}

interface Open {
  readonly descriptor: number;
  readonly events: TransferEvents;
}

let started: Promise<TransferThread> | undefined;

/** The thread of this process. Rejects if it cannot run, or has failed: it is not started again. */
export async function transferThread(): Promise<TransferThread> {
  started ??= TransferThread.start();
  const thread = await started;
  thread.checkRunning();
  return thread;
}

export class TransferThread {
  readonly #state = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT));
  readonly #pipe: readonly [number, number];
  readonly #port: MessagePort;
  readonly #channels = new Map<number, Open>();
  #orders: object[] = [];
  #nextId = 0;
  /** Why it ended. */
  #failure: string | undefined;

  static async start(): Promise<TransferThread> {
    if (!hasDescriptors)
      throw new ShoalError('SHOAL_UNSUPPORTED', `no transfer thread on ${process.platform}`);
    let thread: TransferThread | undefined;
    await new Promise<void>((resolve, reject) => {
      thread = new TransferThread(resolve, reject);
    });
    return thread as TransferThread;
  }

  private constructor(onReady: () => void, onFailed: (error: Error) => void) {
    this.#pipe = makePipe();
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    const worker = new Worker(THREAD, {
      workerData: {
        port: port2,
        state: this.#state.buffer,
        pipe: this.#pipe[0],
        koffi: createRequire(import.meta.url).resolve('koffi'),
      },
      transferList: [port2],
      // The loaders and preloaded modules of the main thread are not for this one.
      execArgv: [],
      env: {},
      resourceLimits: MEMORY,
      name: 'shoal-transfer',
    });
    const stop = () => {
      Atomics.store(this.#state, STOP, 1);
      writeByte(this.#pipe[1]);
    };
    worker.on('error', (cause) => {
      this.#failure = `the transfer thread has ended: ${messageOf(cause)}`;
    });
    worker.on('exit', () => {
      process.off('exit', stop);
      this.#end();
      onFailed(new ShoalError('SHOAL_INTERNAL', this.#failure as unknown as string));
    });
    worker.unref();
    port1.on('message', (report: Report) => {
      if (report.ready) onReady();
      this.#take(report);
    });
    port1.unref();
    process.on('exit', stop);
  }

  /** Moves bytes of a connected socket, whose descriptor then belongs to the thread. */
  open(descriptor: number, events: TransferEvents): TransferChannel {
    const id = this.#nextId++;
    const counters = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT));
    this.#channels.set(id, { descriptor, events });
    if (this.#failure !== undefined) queueMicrotask(() => this.#end());
    this.#order({ id, open: { descriptor, counters } });
    return {
      send: (pointer, length) => this.#order({ id, send: { pointer, length } }),
      receive: (pointer, length) => this.#order({ id, receive: { pointer, length } }),
      close: () => this.#order({ id, close: true }),
      get sentParts() {
        return Atomics.load(counters, 0);
      },
      get receivedParts() {
        return Atomics.load(counters, 1);
      },
    };
  }

  /** The orders of one turn leave together. */
  #order(order: object): void {
    this.#orders.push(order);
    if (this.#orders.length === 1) queueMicrotask(() => this.#sendOrders());
  }

  #sendOrders(): void {
    const orders = this.#orders;
    this.#orders = [];
    if (this.#failure !== undefined) return;
    this.#port.postMessage(orders);
    if (Atomics.exchange(this.#state, WOKEN, 1) === 0) writeByte(this.#pipe[1]);
  }

  #take({ done = [], ended = [] }: Report): void {
    for (const { id, sent, received } of done) this.#channels.get(id)?.events.onDone(sent, received);
    for (const { id, reason } of ended) {
      const channel = this.#channels.get(id);
      this.#channels.delete(id);
      channel?.events.onEnded(reason);
    }
  }

  checkRunning(): void {
    if (this.#failure !== undefined) throw new ShoalError('SHOAL_INTERNAL', this.#failure);
  }

  /** The thread has ended: what it had is closed here, but for what it has closed and reported itself. */
  #end(): void {
    this.#failure ??= 'the transfer thread has ended';
    for (let last = receiveMessageOnPort(this.#port); last; last = receiveMessageOnPort(this.#port)) {
      this.#take(last.message as Report);
    }
    const channels = [...this.#channels.values()];
    this.#channels.clear();
    for (const { descriptor, events } of channels) {
      closeDescriptor(descriptor);
      events.onEnded(this.#failure);
    }
  }
}
