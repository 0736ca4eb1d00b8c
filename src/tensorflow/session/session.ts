/**
 * Runs graphs in this process or on a server. Runs may overlap; each is one call on a thread of the pool, so it does
 * not block the event loop. A run that is abandoned (by timeout or signal) rejects immediately; the native call counts
 * as abandoned until it returns.
 */

import type { WaitOptions } from '../../base/async/deadline.js';
import { invalid, isShoalError, ShoalError } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import { currentGraph, type Graph } from '../graph/graph.js';
import type { Operation, Output } from '../graph/operation.js';
import { newBuffer, packOutputs, takeBuffer } from '../native/buffer.js';
import { Handle } from '../native/handle.js';
import type { Pointer } from '../native/library/c-api.js';
import { C } from '../native/library/library.js';
import { checked, giveStatus, statusError, takeStatus } from '../native/status.js';
import { Tensor, type TensorLike } from '../tensor/tensor.js';
import { type Feed, feed, planFeeds } from './feeds.js';
import { type Fetches, type FetchPlan, type FetchResult, planFetches } from './fetches.js';
import { type Inline, inlineOf } from './inline.js';
import { type NativeCall, nativeCall } from './native-call.js';
import { type NativeFetches, NativeRun } from './native-run.js';
import type { RunOptions } from './runner.js';
import {
  clusterOf,
  configOf,
  freeOptions,
  newOptions,
  overCluster,
  type SessionOptions,
  withNativeOptions,
} from './session-options.js';
import type { TargetSession } from './targets.js';

export type { SessionOptions } from './session-options.js';

/** A run prepared by `session.callable`. */
export interface Callable<F> {
  (...values: TensorLike[]): Promise<FetchResult<F>>;
  /** Synchronous: blocks the event loop. */
  sync(...values: TensorLike[]): FetchResult<F>;
}

/** A run of given outputs, for values that are tensors already. @internal */
export interface PreparedRun {
  /** `isPatient`: waits until TensorFlow has ended the run, however long after its timeout. */
  run(
    values: readonly Tensor[],
    options?: Pick<RunOptions, 'timeoutMs' | 'signal' | 'onBegun'> & { readonly isPatient?: boolean },
  ): Promise<Tensor[]>;
  /** Synchronous: blocks the event loop. */
  sync(values: readonly Tensor[]): Tensor[];
}

/** How long TensorFlow may take to end a run after its deadline before the run is abandoned. */
const GRACE_MS = 250;

export class Session {
  readonly graph: Graph;
  readonly target: string;
  /** TensorFlow's session, or one of the server that the target names. */
  readonly #handle: Handle | TargetSession;
  /** Native runs that have not returned, including abandoned ones: the session cannot be freed before. */
  readonly #inFlight = new Map<Promise<void>, string>();
  #closing: Promise<void> | undefined;

  private constructor(graph: Graph, target: string, native: Pointer | TargetSession) {
    this.graph = graph;
    this.target = target;
    this.#handle = typeof native === 'bigint' ? new Handle('session', native, deleteSession) : native;
  }

  /** Opens a session synchronously. For a remote target use `create`: a frozen peer can block the call. */
  static open(options: OrNull<SessionOptions> = {}): Session {
    const given = withoutNull<SessionOptions>(options);
    const graph = given.graph ?? currentGraph();
    const own = clusterOf(given)?.openSession(graph, configOf(given));
    if (own) return new Session(graph, given.target ?? '', own);
    const complete = overCluster(given);
    return withNativeOptions(complete, (native) => {
      const pointer = checked((status) => C().TF_NewSession(graph.pointer, native, status));
      return new Session(graph, complete.target ?? '', pointer);
    });
  }

  /** Opens a session on a thread of the pool, within `timeoutMs`; default: no limit. */
  static async create(
    asked: OrNull<SessionOptions & { readonly timeoutMs?: number; readonly signal?: AbortSignal }> = {},
  ): Promise<Session> {
    const given = withoutNull<SessionOptions & { timeoutMs?: number; signal?: AbortSignal }>(asked);
    const graph = given.graph ?? currentGraph();
    const server = clusterOf(given);
    await server?.waitForPs(given);
    const own = server?.openSession(graph, configOf(given));
    if (own) return new Session(graph, given.target ?? '', own);
    const options = overCluster(given);
    const graphPointer = graph.pointer;
    const what = `Opening a session${options.target ? ` at ${options.target}` : ''}`;
    const start: NativeCall['start'] = (done, call) => {
      const native = newOptions(options);
      const status = takeStatus();
      call('TF_NewSession', [graphPointer, native, status], (failure, pointer) => {
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
    };
    return nativeCall(what, options, { start });
  }

  /** Opens a SavedModel: TensorFlow adds its graph to `graph`, which must be empty, and restores its variables. */
  static load(
    directory: string,
    tags: readonly string[],
    options: Omit<SessionOptions, 'target'> &
      Pick<RunOptions, 'signal' | 'timeoutMs'> & { readonly graph: Graph },
  ): Promise<{ readonly session: Session; readonly metaGraphDef: Uint8Array }> {
    const { graph } = options;
    const start: NativeCall['start'] = (done, call) => {
      const native = newOptions(options);
      const names = lendStrings(tags);
      const meta = newBuffer();
      const status = takeStatus();
      const args = [
        native,
        null,
        directory,
        names.pointers,
        tags.length,
        graph.pointer,
        meta,
        status,
      ] as const;
      call('TF_LoadSessionFromSavedModel', args, (failure, pointer) => {
        const error = failure ?? statusError(status);
        giveStatus(status);
        names.giveBack();
        freeOptions(native);
        const metaGraphDef = takeBuffer(meta);
        if (error) done(error);
        else
          done(
            null,
            () => ({ session: new Session(graph, '', pointer), metaGraphDef }),
            () => deleteSession(pointer),
          );
      });
    };
    return nativeCall(`Loading ${directory}`, options, { start });
  }

  get closed(): boolean {
    return this.#closing !== undefined;
  }

  /** Runs the fetches and returns their values in the same nesting. */
  run<const F extends Fetches>(fetches: F, options: RunOptions = {}): Promise<FetchResult<F>> {
    try {
      const feeds = planFeeds(this.graph, options.feeds);
      if (!(this.#handle instanceof Handle)) return runOwn(this.#handle, fetches, feeds, options);
      const plan = planFetches(this.graph, fetches, outputsOf(feeds));
      return this.#start(this.#prepare(plan, options.targets), plan, feeds, options) as Promise<
        FetchResult<F>
      >;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** The synchronous `run`: blocks the event loop. For scripts and tiny graphs. */
  runSync<const F extends Fetches>(
    fetches: F,
    options: Pick<RunOptions, 'feeds' | 'targets' | 'timeoutMs'> = {},
  ) {
    const feeds = planFeeds(this.graph, options.feeds);
    const plan = planFetches(this.graph, fetches, outputsOf(feeds));
    return this.#runInPlace(this.#prepare(plan, options.targets), plan, feeds, options) as FetchResult<F>;
  }

  /**
   * Prepares a run for repeated calls, with values for `placeholders` in order: less overhead than `run`.
   */
  callable<const F extends Fetches>(
    fetches: F,
    placeholders: readonly Output[] = [],
    fixed: Omit<RunOptions, 'feeds'> = {},
  ): Callable<F> {
    const plan = planFetches(this.graph, fetches, placeholders);
    const handle = this.#handle;
    const call = this.#prepare(plan, fixed.targets);
    const bind = (values: TensorLike[]): Feed[] => {
      if (values.length !== placeholders.length) {
        throw invalid(`This callable takes ${placeholders.length} values; got ${values.length}`);
      }
      return placeholders.map((output, i) => feed(this.graph, output, values[i] as TensorLike));
    };
    const run = (...values: TensorLike[]) => {
      try {
        const feeds = bind(values);
        return handle instanceof Handle
          ? this.#start(call, plan, feeds, fixed)
          : runOwn(handle, fetches, feeds, fixed);
      } catch (error) {
        return Promise.reject(error);
      }
    };
    const sync = (...values: TensorLike[]) => this.#runInPlace(call, plan, bind(values), fixed);
    return Object.assign(run, { sync }) as Callable<F>;
  }

  /** Prepares a run without nested fetches. `inline` overrides the choice of threads. @internal */
  prepare(
    outputs: readonly Output[],
    placeholders: readonly Output[],
    targets: readonly Operation[],
    { inline }: { readonly inline?: Inline } = {},
  ): PreparedRun {
    const plan: FetchPlan = { outputs, targets, assemble: (values) => values };
    const call = this.#prepare(plan, [], inline);
    const bind = (values: readonly Tensor[]): Feed[] =>
      placeholders.map((output, at) => feed(this.graph, output, values[at] as Tensor));
    return {
      run: (values, options = {}) => {
        try {
          const { isPatient = false } = options;
          return this.#start(call, plan, bind(values), options, isPatient) as Promise<Tensor[]>;
        } catch (error) {
          return Promise.reject(error);
        }
      },
      sync: (values) => this.#runInPlace(call, plan, bind(values), {}) as Tensor[],
    };
  }

  #prepare(plan: FetchPlan, extra: readonly Operation[] = [], inline?: Inline): NativeFetches {
    const targets = new Set([...plan.targets, ...extra]);
    for (const op of extra)
      if (op.graph !== this.graph)
        throw invalid(`The target ${op} belongs to a graph other than the session's`);
    return {
      outputs: plan.outputs,
      packedOutputs: packOutputs(plan.outputs),
      targets: BigUint64Array.from(targets, (op) => op.pointer),
      inline:
        this.target === '' ? (inline ?? inlineOf([...plan.outputs.map(({ op }) => op), ...targets])) : 'none',
    };
  }

  #start(
    call: NativeFetches,
    plan: FetchPlan,
    feeds: readonly Feed[],
    options: RunOptions,
    isPatient = false,
  ): Promise<unknown> {
    const session = this.#pointer();
    if (isEmpty(call)) return Promise.resolve(plan.assemble([], tensorsOf(feeds)));
    const run = new NativeRun(call, feeds, options, false);
    const what = describeRun(call, plan);
    const start: NativeCall['start'] = (done, call) => {
      // The session may have been closed and freed while the run was queued.
      if (this.#closing) {
        run.drop();
        done(closedError());
        return;
      }
      const { running, returned } = this.#trackNative(what);
      options.onBegun?.(running);
      call('TF_SessionRun', run.args(session), (failure) => {
        returned();
        const { error, values, metadata } = run.finish(failure);
        if (error) {
          done(error);
          return;
        }
        const value = () => {
          if (metadata) options.onMetadata?.(metadata);
          return plan.assemble(values, tensorsOf(feeds));
        };
        done(null, value, () => dispose(values));
      });
    };
    const wait = isPatient ? { signal: options.signal } : withGrace(options);
    return nativeCall(what, wait, { start, drop: () => run.drop() });
  }

  #trackNative(what: string): { running: Promise<void>; returned: () => void } {
    let settle = () => {};
    const running = new Promise<void>((resolve) => {
      settle = resolve;
    });
    this.#inFlight.set(running, what);
    const returned = () => {
      this.#inFlight.delete(running);
      settle();
    };
    return { running, returned };
  }

  #runInPlace(call: NativeFetches, plan: FetchPlan, feeds: readonly Feed[], options: RunOptions): unknown {
    const session = this.#pointer();
    if (isEmpty(call)) return plan.assemble([], tensorsOf(feeds));
    const run = new NativeRun(call, feeds, options, true);
    C().TF_SessionRun(...run.args(session));
    const { error, values, metadata } = run.finish(null);
    if (error) throw error;
    if (metadata) options.onMetadata?.(metadata);
    return plan.assemble(values, tensorsOf(feeds));
  }

  #pointer(): Pointer {
    if (this.#closing) throw closedError();
    if (!(this.#handle instanceof Handle)) {
      throw new ShoalError(
        'SHOAL_UNSUPPORTED',
        'A session over a cluster has no synchronous runs and no devices',
        {
          hint: "Use run. With engine: 'grpc', sessions are TensorFlow's own.",
        },
      );
    }
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
   * Cancels active runs and frees the session once they have ended. Variables on a server outlive it. With `timeoutMs`,
   * rejects after that time and names what it waited for: an unreachable peer can delay a close for seconds. The close
   * itself continues.
   */
  close(options: { readonly timeoutMs?: number } = {}): Promise<void> {
    this.#closing ??= this.#close(options);
    return this.#closing;
  }

  async #close(options: { readonly timeoutMs?: number }): Promise<void> {
    if (!(this.#handle instanceof Handle)) return this.#handle.close(options);
    const what = 'Closing a session';
    let isReturned = false;
    const pointer = this.#handle.release();
    const start: NativeCall['start'] = (done, call) => {
      const status = takeStatus();
      call('TF_CloseSession', [pointer, status], (failure) => {
        const error = failure ?? statusError(status);
        giveStatus(status);
        isReturned = true;
        // Runs hold the session until their native call returns.
        void Promise.all(this.#inFlight.keys()).then(() => {
          deleteSession(pointer);
          if (error) done(error);
          else done(null, () => undefined);
        });
      });
    };
    // The runs that it cancels may hold every in-flight slot.
    try {
      await nativeCall(what, options, { start, ahead: true });
    } catch (error) {
      if (!isShoalError(error, 'SHOAL_TF_DEADLINE_EXCEEDED')) throw error;
      const runs = [...this.#inFlight.values()].map((run) => run.replace(/^A/, 'a'));
      const waits = [...(isReturned ? [] : ['TensorFlow’s own close']), ...runs];
      throw new ShoalError(
        error.code,
        `${what} timed out after ${options.timeoutMs} ms, waiting for ${waits.join('; ')}`,
        {
          hint: 'A task may be frozen or unreachable. The close continues in the background.',
        },
      );
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Frees the session synchronously, or like `close` if something is running. */
  dispose(): void {
    if (this.#closing) return;
    if (!(this.#handle instanceof Handle) || this.#inFlight.size > 0) {
      // Callers that need to know about a failed close await `close`.
      this.close().catch(() => {});
      return;
    }
    this.#closing = Promise.resolve();
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

/** Runs in a session of the server that the target names. */
function runOwn<const F extends Fetches>(
  own: TargetSession,
  fetches: F,
  feeds: readonly Feed[],
  options: RunOptions,
): Promise<FetchResult<F>> {
  const pairs = feeds.map(({ output, tensor }) => [output, tensor] as const);
  return own.run(fetches, { ...options, feeds: pairs });
}

const closedError = () => new ShoalError('SHOAL_DISPOSED', 'This session was closed');

const outputsOf = (feeds: readonly Feed[]): Output[] => feeds.map(({ output }) => output);
const tensorsOf = (feeds: readonly Feed[]): Tensor[] => feeds.map(({ tensor }) => tensor);
/** TensorFlow rejects an empty run. */
const isEmpty = (call: NativeFetches): boolean => call.outputs.length === 0 && call.targets.length === 0;

function describeRun(call: NativeFetches, plan: FetchPlan): string {
  const names = [...call.outputs.map((output) => output.name), ...plan.targets.map((op) => op.name)];
  const shown = names.slice(0, 3).join(', ') + (names.length > 3 ? ', …' : '');
  return shown ? `A run of ${shown}` : 'An empty run';
}

/** TensorFlow ends the run at `timeoutMs` if it can; the outer deadline is slightly later. */
function withGrace({ timeoutMs, signal }: RunOptions): WaitOptions {
  return { timeoutMs: timeoutMs === undefined ? undefined : timeoutMs + GRACE_MS, signal };
}

function deleteSession(pointer: Pointer): void {
  const status = takeStatus();
  C().TF_DeleteSession(pointer, status);
  giveStatus(status);
}

/** An array of C strings for one call. */
function lendStrings(strings: readonly string[]): { pointers: BigUint64Array; giveBack: () => void } {
  const encoded = strings.map((text) => Buffer.from(`${text}\0`));
  const memory = Tensor.of(new Uint8Array(Buffer.concat([...encoded, Buffer.from([0])]))).lend();
  let at = C().TF_TensorData(memory.pointer);
  const pointers = BigUint64Array.from(encoded, ({ length }) => {
    const start = at;
    at += BigInt(length);
    return start;
  });
  return { pointers, giveBack: () => memory.giveBack() };
}

function dispose(values: readonly Tensor[]): void {
  for (const value of values) value.dispose();
}
