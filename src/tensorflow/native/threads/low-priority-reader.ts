/**
 * Reads files into native memory on a thread of low priority, so that reading gigabytes does not delay the threads that
 * compute. On Linux only: elsewhere a priority is that of the process.
 */
import { Worker } from 'node:worker_threads';
import { ShoalError } from '../../../base/errors/errors.js';
import { addressOf } from '../buffer.js';
import koffi from '../library/ffi.js';
import { library } from '../library/library.js';

/** Of the values from 0, the normal one, to 19. */
const NICE = 10;

/** Plain JavaScript, for the reasons in extra-threads.ts. */
const WORKER = `
const { parentPort, workerData } = require('node:worker_threads');
const native = { exports: {} };
if (workerData.koffi.endsWith('.node')) process.dlopen(native, workerData.koffi);
else native.exports = require(workerData.koffi);
const koffi = native.exports;
koffi.config(workerData.config);
const libc = koffi.load(null);
libc.func('setpriority', 'int', ['int', 'int', 'int'])(0, 0, workerData.nice);
const pread = libc.func('pread', 'int64_t', ['int', 'void *', 'size_t', 'int64_t']);
parentPort.on('message', ({ id, descriptor, pointer, length, position }) => {
  const bytesRead = Number(pread(descriptor, pointer, length, position));
  parentPort.postMessage({ id, bytesRead, error: bytesRead < 0 ? koffi.errno() : 0 });
});`;

interface Pending {
  readonly resolve: (bytesRead: number) => void;
  readonly reject: (error: Error) => void;
  /** Keeps the memory that is written to. */
  readonly bytes: Uint8Array;
}

export class LowPriorityReader {
  readonly #worker: Worker;
  readonly #pending = new Map<number, Pending>();
  #next = 0;
  #failure: Error | undefined;

  /** Undefined where threads have no priority. */
  static start(): LowPriorityReader | undefined {
    return process.platform === 'linux' ? new LowPriorityReader() : undefined;
  }

  private constructor() {
    const { sync_stack_size, async_stack_size } = koffi.config();
    this.#worker = new Worker(WORKER, {
      eval: true,
      execArgv: [],
      env: {},
      name: 'shoal-reader',
      workerData: { koffi: library().ffiModule, config: { sync_stack_size, async_stack_size }, nice: NICE },
    });
    this.#worker.on('message', (answer: { id: number; bytesRead: number; error: number }) => {
      const pending = this.#pending.get(answer.id);
      this.#pending.delete(answer.id);
      if (answer.error === 0) pending?.resolve(answer.bytesRead);
      else pending?.reject(new ShoalError('SHOAL_INTERNAL', `a read failed with error ${answer.error}`));
    });
    this.#worker.on('error', (error) => this.#fail(error as Error));
    this.#worker.on('exit', () =>
      this.#fail(new ShoalError('SHOAL_INTERNAL', 'the reading thread has ended')),
    );
  }

  /** Reads into native memory; resolves with the number of bytes, 0 at the end. Undefined if the memory is not native. */
  read(descriptor: number, bytes: Uint8Array, position: number): Promise<number> | undefined {
    const pointer = addressOf(bytes);
    if (pointer === undefined) return undefined;
    if (this.#failure) return Promise.reject(this.#failure);
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject, bytes });
      this.#worker.postMessage({ id, descriptor, pointer, length: bytes.byteLength, position });
    });
  }

  /** Ends the thread. No read may be under way. */
  close(): void {
    void this.#worker.terminate();
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    for (const { reject } of this.#pending.values()) reject(this.#failure);
    this.#pending.clear();
  }
}
