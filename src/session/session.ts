/**
 * Runs graphs: in this process, or through a server's address. Runs may overlap; each is one call on a
 * thread of the pool, so the event loop goes on. A run that is given up (by time or by signal) rejects
 * at once; what TensorFlow still does of it is counted as abandoned until it returns.
 */
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { abortError } from '../async/deadline.js';
import { invalid, ShoalError } from '../errors/errors.js';
import { currentGraph, type Graph } from '../graph/graph.js';
import type { Operation, Output } from '../graph/operation.js';
import { freeBuffer, newBuffer, packOutputs, takeBuffer } from '../native/buffer.js';
import type { Pointer } from '../native/c-api.js';
import { countHandle, Handle } from '../native/handle.js';
import { C } from '../native/library.js';
import { checked, giveStatus, statusError, takeStatus } from '../native/status.js';
import {
  ConfigProtoSchema,
  type RunMetadata,
  RunMetadataSchema,
  RunOptions_TraceLevel,
  RunOptionsSchema,
} from '../proto/generated/config_pb.js';
import { Tensor, type TensorLike } from '../tensor/tensor.js';
import { type Feed, type Feeds, feed, planFeeds } from './feeds.js';
import { type Fetches, type FetchPlan, type FetchResult, planFetches } from './fetches.js';
import { nativeLane } from './lane.js';

export interface SessionOptions {
  readonly graph?: Graph;
  /** A server's address (`grpc://host:port`); this process when left out. */
  readonly target?: string;
  readonly config?: MessageInitShape<typeof ConfigProtoSchema>;
}

export interface RunOptions {
  readonly feeds?: Feeds;
  /** Ops to run besides what is fetched. */
  readonly targets?: readonly Operation[];
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Asks TensorFlow for a trace and is given it. */
  readonly onMetadata?: (metadata: RunMetadata) => void;
}

/** A run prepared by `session.callable`. */
export interface Callable<F> {
  (...values: TensorLike[]): Promise<FetchResult<F>>;
  /** In place: the event loop stands still meanwhile. */
  sync(...values: TensorLike[]): FetchResult<F>;
}

/** How long TensorFlow gets to end a run by its own deadline before the run is given up from outside. */
const GRACE_MS = 250;

interface Call {
  readonly outputs: readonly Output[];
  readonly packedOutputs: BigUint64Array;
  readonly targets: BigUint64Array;
}

export class Session {
  readonly graph: Graph;
  readonly target: string;
  readonly #handle: Handle;
  /** Native runs that have not returned, given up or not: the session cannot be freed under them. */
  readonly #inFlight = new Set<Promise<void>>();
  #closed = false;

  private constructor(graph: Graph, target: string, pointer: Pointer) {
    this.graph = graph;
    this.target = target;
    this.#handle = new Handle('session', pointer, deleteSession);
  }

  /** A session in place. With a remote target use `create`: a frozen peer can hold the call up. */
  static open(options: SessionOptions = {}): Session {
    const graph = options.graph ?? currentGraph();
    return withOptions(options, (native) => {
      const pointer = checked((status) => C().TF_NewSession(graph.pointer, native, status));
      return new Session(graph, options.target ?? '', pointer);
    });
  }

  /** A session made on a thread of the pool, within a deadline. */
  static create(
    options: SessionOptions & { readonly timeoutMs?: number; readonly signal?: AbortSignal } = {},
  ): Promise<Session> {
    const graph = options.graph ?? currentGraph();
    const graphPointer = graph.pointer;
    const what = `Opening a session${options.target ? ` at ${options.target}` : ''}`;
    return nativeCall(what, options, (done) => {
      const native = newOptions(options);
      const status = takeStatus();
      C().TF_NewSession.async(graphPointer, native, status, (failure, pointer) => {
        const error = failure ?? statusError(status);
        giveStatus(status);
        freeOptions(native);
        if (error) done(error);
        else
          done(
            null,
            () => new Session(graph, options.target ?? '', pointer),
            () => deleteSession(pointer),
          );
      });
    });
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Runs what is needed for the fetches and gives their values in the same nesting. */
  run<const F extends Fetches>(fetches: F, options: RunOptions = {}): Promise<FetchResult<F>> {
    try {
      const plan = planFetches(this.graph, fetches);
      const feeds = planFeeds(this.graph, options.feeds);
      return this.#start(prepare(plan, options.targets), plan, feeds, options) as Promise<FetchResult<F>>;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** The same in place: the event loop stands still meanwhile. For scripts and tiny graphs. */
  runSync<const F extends Fetches>(
    fetches: F,
    options: Pick<RunOptions, 'feeds' | 'targets' | 'timeoutMs'> = {},
  ) {
    const plan = planFetches(this.graph, fetches);
    const call = prepare(plan, options.targets);
    return this.#runInPlace(call, plan, planFeeds(this.graph, options.feeds), options) as FetchResult<F>;
  }

  /**
   * A run prepared once and called often, with values for `placeholders` in order: less work per step
   * than `run`.
   */
  callable<const F extends Fetches>(
    fetches: F,
    placeholders: readonly Output[] = [],
    fixed: Omit<RunOptions, 'feeds'> = {},
  ): Callable<F> {
    const plan = planFetches(this.graph, fetches);
    const call = prepare(plan, fixed.targets);
    const bind = (values: TensorLike[]): Feed[] => {
      if (values.length !== placeholders.length) {
        throw invalid(`This callable takes ${placeholders.length} values, ${values.length} were given`);
      }
      return placeholders.map((output, i) => feed(this.graph, output, values[i] as TensorLike));
    };
    const run = (...values: TensorLike[]) => {
      try {
        return this.#start(call, plan, bind(values), fixed);
      } catch (error) {
        return Promise.reject(error);
      }
    };
    const sync = (...values: TensorLike[]) => this.#runInPlace(call, plan, bind(values), fixed);
    return Object.assign(run, { sync }) as Callable<F>;
  }

  #start(call: Call, plan: FetchPlan, feeds: readonly Feed[], options: RunOptions): Promise<unknown> {
    const session = this.#pointer();
    return nativeCall(describeRun(call, plan), withGrace(options), (done) => {
      const run = new NativeRun(call, feeds, options);
      const returned = this.#trackNative();
      C().TF_SessionRun.async(...run.args(session), (failure) => {
        returned();
        const { error, values } = run.finish(failure);
        if (error) done(error);
        else
          done(
            null,
            () => plan.assemble(values),
            () => dispose(values),
          );
      });
    });
  }

  #trackNative(): () => void {
    let settle = () => {};
    const running = new Promise<void>((resolve) => {
      settle = resolve;
    });
    this.#inFlight.add(running);
    return () => {
      this.#inFlight.delete(running);
      settle();
    };
  }

  #runInPlace(call: Call, plan: FetchPlan, feeds: readonly Feed[], options: RunOptions): unknown {
    const run = new NativeRun(call, feeds, options);
    let failure: Error | null = null;
    try {
      C().TF_SessionRun(...run.args(this.#pointer()));
    } catch (error) {
      failure = error as Error;
    }
    const { error, values } = run.finish(failure);
    if (error) throw error;
    return plan.assemble(values);
  }

  #pointer(): Pointer {
    if (this.#closed) throw new ShoalError('SHOAL_DISPOSED', 'This session was closed');
    return this.#handle.pointer;
  }

  /** The devices that the session sees. */
  devices(): { name: string; type: string }[] {
    const list = checked((status) => C().TF_SessionListDevices(this.#pointer(), status));
    try {
      return Array.from({ length: C().TF_DeviceListCount(list) }, (_, i) => ({
        name: checked((status) => C().TF_DeviceListName(list, i, status)),
        type: checked((status) => C().TF_DeviceListType(list, i, status)),
      }));
    } finally {
      C().TF_DeleteDeviceList(list);
    }
  }

  /**
   * Cancels what runs and frees the session once it has ended. Variables in a server outlive it. With
   * `timeoutMs`, waits no longer than that: a peer that is cut off can hold a close up for seconds.
   */
  async close(options: { readonly timeoutMs?: number } = {}): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const pointer = this.#handle.release();
    const closing = nativeCall('Closing a session', options, (done) => {
      const status = takeStatus();
      C().TF_CloseSession.async(pointer, status, (failure) => {
        const error = failure ?? statusError(status);
        giveStatus(status);
        // Runs hold the session until TensorFlow has returned from them.
        void Promise.all(this.#inFlight).then(() => {
          deleteSession(pointer);
          if (error) done(error);
          else done(null, () => undefined);
        });
      });
    });
    await closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Frees the session in place; nothing may be running. */
  dispose(): void {
    if (this.#closed) return;
    this.#closed = true;
    const pointer = this.#handle.release();
    try {
      checked((status) => C().TF_CloseSession(pointer, status));
    } finally {
      deleteSession(pointer);
    }
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}

function prepare(plan: FetchPlan, extra: readonly Operation[] = []): Call {
  const targets = new Set([...plan.targets, ...extra]);
  return {
    outputs: plan.outputs,
    packedOutputs: packOutputs(plan.outputs),
    targets: BigUint64Array.from(targets, (op) => op.pointer),
  };
}

function describeRun(call: Call, plan: FetchPlan): string {
  const names = [...call.outputs.map((output) => output.name), ...plan.targets.map((op) => op.name)];
  const shown = names.slice(0, 3).join(', ') + (names.length > 3 ? ', …' : '');
  return shown ? `A run of ${shown}` : 'A run of nothing';
}

/** TensorFlow ends the run at `timeoutMs` itself where it can; the outer deadline comes a little later. */
function withGrace({ timeoutMs, signal }: RunOptions): {
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
} {
  return { timeoutMs: timeoutMs === undefined ? undefined : timeoutMs + GRACE_MS, signal };
}

/** The native side of one run: lends tensors in, takes tensors out, and frees what it made. */
class NativeRun {
  readonly #call: Call;
  readonly #status = takeStatus();
  readonly #lent: { pointer: Pointer; owned: boolean }[];
  readonly #packedFeeds: BigUint64Array;
  readonly #feedPointers: BigUint64Array;
  readonly #results: BigUint64Array;
  readonly #runOptions: Pointer | null;
  readonly #metadata: Pointer | null;
  readonly #onMetadata: RunOptions['onMetadata'];

  constructor(call: Call, feeds: readonly Feed[], options: RunOptions) {
    this.#call = call;
    this.#lent = feeds.map(({ tensor }) => tensor.lend());
    this.#packedFeeds = packOutputs(feeds.map(({ output }) => output));
    this.#feedPointers = BigUint64Array.from(this.#lent, ({ pointer }) => pointer);
    this.#results = new BigUint64Array(call.outputs.length);
    this.#onMetadata = options.onMetadata;
    this.#runOptions = runOptionsBuffer(options);
    this.#metadata = options.onMetadata ? newBuffer() : null;
  }

  args(session: Pointer) {
    return [
      session,
      this.#runOptions,
      this.#packedFeeds,
      this.#feedPointers,
      this.#feedPointers.length,
      this.#call.packedOutputs,
      this.#results,
      this.#results.length,
      this.#call.targets,
      this.#call.targets.length,
      this.#metadata,
      this.#status,
    ] as [
      Pointer,
      Pointer | null,
      BigUint64Array,
      BigUint64Array,
      number,
      BigUint64Array,
      BigUint64Array,
      number,
      BigUint64Array,
      number,
      Pointer | null,
      Pointer,
    ];
  }

  finish(failure: Error | null): { error: Error | undefined; values: Tensor[] } {
    const error = failure ?? statusError(this.#status);
    giveStatus(this.#status);
    for (const { pointer, owned } of this.#lent) if (owned) C().TF_DeleteTensor(pointer);
    if (this.#runOptions !== null) freeBuffer(this.#runOptions);
    const metadata = this.#metadata === null ? undefined : takeBuffer(this.#metadata);
    if (error) return { error, values: [] };
    const values = this.#call.outputs.map((output, i) =>
      Tensor.fromNative(this.#results[i] as Pointer, `a run of ${output.name}`),
    );
    if (metadata) this.#onMetadata?.(fromBinary(RunMetadataSchema, metadata));
    return { error: undefined, values };
  }
}

function runOptionsBuffer({ timeoutMs, onMetadata }: RunOptions): Pointer | null {
  if (timeoutMs === undefined && !onMetadata) return null;
  if (timeoutMs !== undefined && !(timeoutMs > 0))
    throw invalid(`timeoutMs must be above 0, it is ${timeoutMs}`);
  const message = create(RunOptionsSchema, {
    timeoutInMs: BigInt(Math.ceil(timeoutMs ?? 0)),
    traceLevel: onMetadata ? RunOptions_TraceLevel.FULL_TRACE : RunOptions_TraceLevel.NO_TRACE,
  });
  return newBuffer(toBinary(RunOptionsSchema, message));
}

function newOptions({ target, config }: SessionOptions): Pointer {
  const native = C().TF_NewSessionOptions();
  countHandle('options', 1);
  try {
    if (target) C().TF_SetTarget(native, target);
    if (config) {
      const bytes = toBinary(ConfigProtoSchema, create(ConfigProtoSchema, config));
      checked((status) => C().TF_SetConfig(native, bytes, bytes.length, status));
    }
    return native;
  } catch (error) {
    freeOptions(native);
    throw error;
  }
}

function freeOptions(native: Pointer): void {
  C().TF_DeleteSessionOptions(native);
  countHandle('options', -1);
}

function withOptions<T>(options: SessionOptions, f: (native: Pointer) => T): T {
  const native = newOptions(options);
  try {
    return f(native);
  } finally {
    freeOptions(native);
  }
}

function deleteSession(pointer: Pointer): void {
  const status = takeStatus();
  C().TF_DeleteSession(pointer, status);
  giveStatus(status);
}

function dispose(values: readonly Tensor[]): void {
  for (const value of values) value.dispose();
}

/** `value` is asked for only when the caller still waits; `discard` frees it when nobody does. */
type Done = {
  (error: Error): void;
  (error: null, value: () => unknown, discard?: () => void): void;
};

/** One native call on a thread of the pool, with a deadline and a signal. */
function nativeCall<T>(
  what: string,
  {
    timeoutMs,
    signal,
  }: { readonly timeoutMs?: number | undefined; readonly signal?: AbortSignal | undefined },
  start: (done: Done) => void,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    if (signal?.aborted) {
      reject(abortError(what, signal));
      return;
    }
    const lane = nativeLane();
    let state: 'waiting' | 'running' | 'given-up' | 'done' = 'waiting';
    let timer: NodeJS.Timeout | undefined;
    let returned: (() => void) | undefined;
    const giveUp = (error: ShoalError) => {
      if (state === 'running') returned = lane.abandon();
      state = 'given-up';
      stopWaiting();
      reject(error);
    };
    const onAbort = () => giveUp(abortError(what, signal as AbortSignal));
    const stopWaiting = () => {
      if (timer !== undefined) clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    if (timeoutMs !== undefined) {
      timer = setTimeout(() => {
        giveUp(
          new ShoalError(
            'SHOAL_TF_DEADLINE_EXCEEDED',
            `${what} did not end within ${timeoutMs} ms and was given up`,
            {
              hint: 'A task may be frozen or cut off.',
            },
          ),
        );
      }, timeoutMs);
    }
    const launch = (leave: () => void) => {
      if (state === 'given-up') {
        leave();
        return;
      }
      state = 'running';
      const done = (error: Error | null, value?: () => unknown, discard?: () => void) => {
        leave();
        if (state === 'given-up') {
          returned?.();
          discard?.();
          return;
        }
        state = 'done';
        stopWaiting();
        if (error) reject(error);
        else resolve(value?.() as T);
      };
      try {
        start(done as Done);
      } catch (error) {
        done(error as Error);
      }
    };
    try {
      lane.enter(launch);
    } catch (error) {
      stopWaiting();
      reject(error);
    }
  });
}
