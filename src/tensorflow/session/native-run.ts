/** The native side of one run: passes tensors in and out, and frees its resources. */
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  type RunMetadata,
  RunMetadataSchema,
  RunOptions_TraceLevel,
  RunOptionsSchema,
} from '../../base/proto/generated/config_pb.js';
import type { Output } from '../graph/operation.js';
import { freeBuffer, newBuffer, packOutputs, takeBuffer } from '../native/buffer.js';
import type { Pointer } from '../native/library/c-api.js';
import { C } from '../native/library/library.js';
import { giveStatus, statusError, takeStatus } from '../native/status.js';
import { type LentTensor, Tensor } from '../tensor/tensor.js';
import type { Feed } from './feeds.js';
import type { Inline } from './inline.js';
import { checkTimeout } from './native-call.js';

/** The fetches and targets of a run, in C layout. */
export interface NativeFetches {
  readonly outputs: readonly Output[];
  readonly packedOutputs: BigUint64Array;
  readonly targets: BigUint64Array;
  readonly inline: Inline;
}

/** The value of RunOptions.inter_op_thread_pool for the caller's thread. */
const CALLER_THREAD = -1;
const INLINE = toBinary(RunOptionsSchema, create(RunOptionsSchema, { interOpThreadPool: CALLER_THREAD }));

/** The options of all inline runs without a deadline; never freed. */
let inlineOptions: Pointer | undefined;

export interface NativeRunOptions {
  readonly timeoutMs?: number;
  readonly onMetadata?: (metadata: RunMetadata) => void;
}

export interface RunOutcome {
  readonly error: Error | undefined;
  readonly values: readonly Tensor[];
  readonly metadata: RunMetadata | undefined;
}

type RunArguments = [
  session: Pointer,
  options: Pointer | null,
  feeds: BigUint64Array,
  feedValues: BigUint64Array,
  feedCount: number,
  fetches: BigUint64Array,
  fetchValues: BigUint64Array,
  fetchCount: number,
  targets: BigUint64Array,
  targetCount: number,
  metadata: Pointer | null,
  status: Pointer,
];

export class NativeRun {
  readonly #call: NativeFetches;
  readonly #lent: LentTensor[] = [];
  readonly #packedFeeds: BigUint64Array;
  readonly #feedPointers: BigUint64Array;
  readonly #results: BigUint64Array;
  readonly #runOptions: Pointer | null;
  readonly #metadata: Pointer | null;
  readonly #status: Pointer;

  /** Captures the current values of the feeds. `isMain`: the call is made on the main thread. */
  constructor(call: NativeFetches, feeds: readonly Feed[], options: NativeRunOptions, isMain: boolean) {
    checkTimeout(options.timeoutMs);
    this.#call = call;
    try {
      for (const { tensor } of feeds) this.#lent.push(tensor.lend());
    } catch (error) {
      this.#giveBack();
      throw error;
    }
    this.#packedFeeds = packOutputs(feeds.map(({ output }) => output));
    this.#feedPointers = BigUint64Array.from(this.#lent, ({ pointer }) => pointer);
    this.#results = new BigUint64Array(call.outputs.length);
    this.#runOptions = runOptionsBuffer(call, options, isMain);
    this.#metadata = options.onMetadata ? newBuffer() : null;
    this.#status = takeStatus();
  }

  args(session: Pointer): RunArguments {
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
    ];
  }

  /** The outcome of the call; frees everything but the values. */
  finish(failure: Error | null): RunOutcome {
    const error = failure ?? statusError(this.#status);
    giveStatus(this.#status);
    this.#giveBack();
    freeOptions(this.#runOptions);
    const bytes = this.#metadata === null ? undefined : takeBuffer(this.#metadata);
    if (error) return { error, values: [], metadata: undefined };
    const values = this.#call.outputs.map((output, i) =>
      Tensor.fromNative(this.#results[i] as Pointer, `a run of ${output.name}`),
    );
    return { error: undefined, values, metadata: bytes && fromBinary(RunMetadataSchema, bytes) };
  }

  /** Frees the resources of a run that never started. */
  drop(): void {
    giveStatus(this.#status);
    this.#giveBack();
    freeOptions(this.#runOptions);
    if (this.#metadata !== null) freeBuffer(this.#metadata);
  }

  #giveBack(): void {
    for (const loan of this.#lent) loan.giveBack();
  }
}

function freeOptions(buffer: Pointer | null): void {
  if (buffer !== null && buffer !== inlineOptions) freeBuffer(buffer);
}

// Caches the options of a call's last run: a training loop repeats the same call with the same deadline.
const encoded = new WeakMap<
  NativeFetches,
  { readonly timeoutMs: number; readonly isMain: boolean; readonly bytes: Uint8Array }
>();

function runOptionsBuffer(
  call: NativeFetches,
  { timeoutMs = 0, onMetadata }: NativeRunOptions,
  isMain: boolean,
): Pointer | null {
  const isInline = call.inline === 'any' || (call.inline === 'pool' && !isMain);
  const hasDeadline = timeoutMs > 0 && Number.isFinite(timeoutMs);
  if (!hasDeadline && !onMetadata) {
    if (!isInline) return null;
    inlineOptions ??= C().TF_NewBufferFromString(INLINE, INLINE.length);
    return inlineOptions;
  }
  const last = onMetadata ? undefined : encoded.get(call);
  if (last?.timeoutMs === timeoutMs && last.isMain === isMain) return newBuffer(last.bytes);
  const message = create(RunOptionsSchema, {
    interOpThreadPool: isInline ? CALLER_THREAD : 0,
    timeoutInMs: hasDeadline ? BigInt(Math.ceil(timeoutMs)) : 0n,
    traceLevel: onMetadata ? RunOptions_TraceLevel.FULL_TRACE : RunOptions_TraceLevel.NO_TRACE,
  });
  const bytes = toBinary(RunOptionsSchema, message);
  if (!onMetadata) encoded.set(call, { timeoutMs, isMain, bytes });
  return newBuffer(bytes);
}
