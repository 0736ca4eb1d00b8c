/**
 * Threads for blocking calls beside those of libuv's pool, whose size is fixed before a program can set it (see
 * async/thread-pool.ts). Each is a worker thread of Node that makes one call at a time.
 */
import { Worker } from 'node:worker_threads';
import { type ArgumentKind, type CName, DECLARATIONS, type PointerArgument } from '../library/c-api.js';
import koffi from '../library/ffi.js';
import { library } from '../library/library.js';

/** A blocking call. `done` gets what `.async` of a C function passes to its callback. */
export type BlockingCall = (
  name: CName,
  args: readonly CallArgument[],
  done: (error: Error | null, result: bigint) => void,
) => void;
export type CallArgument = PointerArgument | number | string;

const TYPES = { void: 'void', ptr: 'void *', int: 'int', size: 'size_t', str: 'str' } as const;

/**
 * Plain JavaScript, because a worker does not inherit the loader of TypeScript that the program may use. It reads no file:
 * the native module is open in this process, and found by its path even if an upgrade has removed it.
 */
const WORKER = `
const { parentPort, workerData } = require('node:worker_threads');
const native = { exports: {} };
if (workerData.koffi.endsWith('.node')) process.dlopen(native, workerData.koffi);
else native.exports = require(workerData.koffi);
const koffi = native.exports;
koffi.config(workerData.config);
const libraries = workerData.libraries.map((path) => koffi.load(path, { lazy: true }));
const functions = new Map();
function bind({ name, result, kinds }) {
  for (const library of libraries) {
    try { return library.func(name, result, kinds); } catch {}
  }
  throw new Error('TensorFlow has no ' + name);
}
parentPort.on('message', ({ call, args }) => {
  try {
    if (!functions.has(call.name)) functions.set(call.name, bind(call));
    parentPort.postMessage({ result: functions.get(call.name)(...args) });
  } catch (error) {
    parentPort.postMessage({ error });
  }
});`;

interface Answer {
  readonly error?: Error;
  readonly result?: bigint;
}

/** A thread that has made no call for this long ends. */
const IDLE_MS = 30_000;

interface Idle {
  readonly worker: Worker;
  readonly timer: NodeJS.Timeout;
}

export class ExtraThreads {
  readonly #idleMs: number;
  /** The last one is used first, so that those that are not needed stay idle. */
  readonly #idle: Idle[] = [];

  constructor({ idleMs = IDLE_MS }: { readonly idleMs?: number } = {}) {
    this.#idleMs = idleMs;
  }

  /** Whether a call would not have to start a thread. */
  get hasIdle(): boolean {
    return this.#idle.length > 0;
  }

  readonly call: BlockingCall = (name, args, done) => {
    const worker = this.#take();
    const shared = args.map(share);
    const settle = ({ error, result }: Answer) => {
      worker.off('message', onAnswer);
      worker.off('error', onFailure);
      worker.unref();
      // The native code has written into the shared copies.
      for (const [i, arg] of args.entries()) {
        if (ArrayBuffer.isView(arg)) bytesOf(arg).set(bytesOf(shared[i] as NodeJS.TypedArray));
      }
      done(error ?? null, result ?? 0n);
    };
    const onAnswer = (answer: Answer) => {
      this.#keep(worker);
      settle(answer);
    };
    const onFailure = (error: Error) => settle({ error });
    worker.on('message', onAnswer);
    worker.on('error', onFailure);
    // Like a call on a thread of the pool, this one keeps the process.
    worker.ref();
    const [result, kinds] = DECLARATIONS[name];
    worker.postMessage({ call: { name, result: typeOf(result), kinds: kinds.map(typeOf) }, args: shared });
  };

  #take(): Worker {
    const idle = this.#idle.pop();
    if (idle === undefined) return startWorker();
    clearTimeout(idle.timer);
    return idle.worker;
  }

  #keep(worker: Worker): void {
    const timer = setTimeout(() => {
      const at = this.#idle.findIndex((idle) => idle.worker === worker);
      if (at >= 0) this.#idle.splice(at, 1);
      void worker.terminate();
    }, this.#idleMs).unref();
    this.#idle.push({ worker, timer });
  }
}

function startWorker(): Worker {
  const { located, ffiModule } = library();
  const { sync_stack_size, async_stack_size } = koffi.config();
  return new Worker(WORKER, {
    eval: true,
    // Neither the program's flags nor its loaders.
    execArgv: [],
    env: {},
    name: 'shoal-native-call',
    workerData: {
      koffi: ffiModule,
      config: { sync_stack_size, async_stack_size },
      libraries: [located.ccPath, located.frameworkPath],
    },
  });
}

function typeOf(kind: ArgumentKind | 'void'): string {
  const type = (TYPES as Partial<Record<string, string>>)[kind];
  if (type === undefined) throw new Error(`No blocking call has a value of kind ${kind}`);
  return type;
}

/** The memory of JavaScript's objects does not move to another thread: arrays are copied into shared memory. */
function share(arg: CallArgument): CallArgument {
  if (!ArrayBuffer.isView(arg)) return arg;
  const copy = new Uint8Array(new SharedArrayBuffer(arg.byteLength));
  copy.set(bytesOf(arg));
  return copy;
}

const bytesOf = (view: NodeJS.TypedArray): Uint8Array =>
  new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
