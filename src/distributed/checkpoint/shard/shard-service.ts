/**
 * The part of checkpoints that a process with variables does: it takes references to their values, streams them to the
 * store, and restores them. It holds one snapshot at a time; a newer one replaces it.
 */
import { abortError, throwIfAborted } from '../../../base/async/deadline.js';
import { faultPoint } from '../../../base/async/fault-point.js';
import { isShoalError, messageOf, type ShoalCode, ShoalError } from '../../../base/errors/errors.js';
import { Spoiled } from '../../../tensorflow/formats/range-reader.js';
import { BundleReader } from '../../../tensorflow/formats/tensor-bundle/bundle-reader.js';
import { writeIndexFile } from '../../../tensorflow/formats/tensor-bundle/index-file.js';
import { dataFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import { DTYPES } from '../../../tensorflow/tensor/dtype.js';
import { sizeOf } from '../../../tensorflow/tensor/shape.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { validated } from '../../cluster/agent/wire.js';
import type { ClusterTask } from '../../cluster/task/cluster-task.js';
import { onLongOrder } from '../../cluster/task/long-order.js';
import { readBackMismatch } from '../../store/disk/directory-store.js';
import type { BlobSource, Store } from '../../store/store.js';
import { encodeChunks } from '../format/manifest.js';
import { fileBlob } from '../format/names.js';
import { type SavedVariable, sliceOf } from '../format/saved-variable.js';
import { ShardImage } from '../format/shard-image.js';
import { replaceDamaged } from '../reading/replace-damaged.js';
import { VerifiedReader } from '../reading/verified-reader.js';
import {
  DropSchema,
  ORDERS,
  type OwnerOptions,
  type RestoredShard,
  RestoreSchema,
  type ShardOwner,
  type ShardRestoreRequest,
  type ShardWriteRequest,
  type SnapshotRequest,
  SnapshotSchema,
  WriteSchema,
  type WrittenShard,
} from './shard-owner.js';
import type { SessionVariableAccess } from './variable-access.js';

export interface ShardServiceOptions {
  readonly access: SessionVariableAccess;
  readonly openStore: (url: string) => Store;
  /** How long a snapshot is kept before it is written; default: 120 s. */
  readonly holdMs?: number;
  /** Called when a shard has been written, with its size; default: none. */
  readonly onWritten?: ((bytes: number) => void) | undefined;
  readonly log?: (line: string) => void;
}

/** Errors that concern the checkpoint, not its reader. */
const DAMAGE: ReadonlySet<ShoalCode> = new Set<ShoalCode>(['SHOAL_CORRUPT', 'SHOAL_UNREACHABLE']);

interface Held {
  readonly attempt: string;
  readonly tensors: readonly Tensor[];
  readonly image: ShardImage;
  readonly timer: NodeJS.Timeout;
  /** Set while it is written. Its memory must not be freed before the write has ended. */
  writing: { readonly stop: AbortController; readonly ended: Promise<unknown> } | undefined;
}

export class ShardService implements ShardOwner {
  readonly #options: ShardServiceOptions;
  #held: Held | undefined;
  #restoring: Promise<unknown> = Promise.resolve();

  constructor(options: ShardServiceOptions) {
    this.#options = options;
  }

  /** Registers the handlers of the chief's orders. */
  serve(task: ClusterTask): this {
    onLongOrder(task, ORDERS.snapshot, (payload, context) =>
      this.snapshot(validated(SnapshotSchema, payload, 'order'), context),
    );
    onLongOrder(task, ORDERS.write, (payload, context) =>
      this.write(validated(WriteSchema, payload, 'order'), context),
    );
    onLongOrder(task, ORDERS.restore, (payload, context) =>
      this.restore(validated(RestoreSchema, payload, 'order'), context),
    );
    task.onOrder(ORDERS.drop, (payload) => this.drop(validated(DropSchema, payload, 'order').attempt));
    return this;
  }

  async snapshot({ attempt, variables }: SnapshotRequest, { signal }: OwnerOptions = {}) {
    await this.#endOther();
    await faultPoint('checkpoint.snapshot.before');
    const tensors = await this.#options.access.read(variables, { signal });
    await faultPoint('checkpoint.snapshot.after');
    if (signal?.aborted) {
      // The chief has already dropped this snapshot.
      for (const tensor of tensors) tensor.dispose();
      throw abortError('A snapshot', signal);
    }
    await this.#endOther();
    let image: ShardImage;
    try {
      image = new ShardImage(variables.map((variable, i) => ({ variable, tensor: tensors[i]! })));
    } catch (error) {
      for (const tensor of tensors) tensor.dispose();
      throw error;
    }
    const { holdMs = 120_000, log } = this.#options;
    const timer = setTimeout(() => {
      log?.(
        `dropped the snapshot of ${attempt}: the chief did not order to write it within ${holdMs / 1000} s`,
      );
      this.#release(this.#held);
    }, holdMs).unref();
    this.#held = { attempt, tensors, image, timer, writing: undefined };
    return { bytes: image.size };
  }

  async write(request: ShardWriteRequest, options: OwnerOptions = {}): Promise<WrittenShard> {
    const { signal } = options;
    const held = this.#held;
    if (held?.attempt !== request.attempt || held.writing) {
      throw new ShoalError('SHOAL_NOT_FOUND', `The snapshot ${request.attempt} is no longer held`);
    }
    const stop = new AbortController();
    const either = AbortSignal.any([stop.signal, ...(signal ? [signal] : [])]);
    const work = this.#write(held, request, { ...options, signal: either });
    held.writing = { stop, ended: work.catch(() => undefined) };
    clearTimeout(held.timer);
    return work;
  }

  async #write(
    held: Held,
    request: ShardWriteRequest,
    { signal, onProgress, orderedBy }: OwnerOptions,
  ): Promise<WrittenShard> {
    const store = this.#options.openStore(request.store);
    const file = dataFile(request.prefix, request.shard, request.shards);
    const blob = fileBlob(request.namespace, request, file);
    const { image } = held;
    const { readBack = true } = request;
    try {
      await faultPoint('checkpoint.write.before');
      const put = await store.put(blob, counted(image.source, onProgress), {
        signal,
        size: image.size,
        crc32c: () => image.sums().crc32c,
        readBack,
        lasting: true,
        // The blob name is unique to the attempt.
        isNew: true,
        orderedBy,
      });
      await faultPoint('checkpoint.write.after');
      const { index, chunks, crc32c } = image.sums();
      const others = put.places.filter((place) => !put.readBack?.includes(place));
      if (readBack) await verifyCopies(store, blob, others, { size: image.size, crc32c }, signal);
      await faultPoint('checkpoint.write.verified');
      this.#options.onWritten?.(image.size);
      return {
        file: { file, size: image.size, crc32c, chunks: encodeChunks(chunks), places: [...put.places] },
        index: Buffer.from(writeIndexFile(index)).toString('base64'),
        shortfall: put.shortfall,
      };
    } finally {
      this.#release(held);
    }
  }

  async drop(attempt: string): Promise<void> {
    // A running write is ended by the order that started it.
    if (this.#held?.attempt === attempt && !this.#held.writing) this.#release(this.#held);
  }

  /** Restores run one after another: an aborted one cannot overwrite values of the next. */
  restore(request: ShardRestoreRequest, options: OwnerOptions = {}): Promise<RestoredShard> {
    const before = this.#restoring;
    const work = (async () => {
      await before;
      return this.#restore(request, options);
    })();
    this.#restoring = work.catch(() => undefined);
    return work;
  }

  /** Values are read while the previous one is assigned: this needs memory for two large values. */
  async #restore(request: ShardRestoreRequest, { signal, onProgress }: OwnerOptions): Promise<RestoredShard> {
    throwIfAborted('A restore', signal);
    const { manifest, namespace, variables } = request;
    const notices: string[] = [];
    const store = this.#options.openStore(request.store);
    const reader = new VerifiedReader(store, manifest, {
      namespace,
      signal,
      keepsOpen: true,
      onDamage: (line) => {
        if (notices.length < 100) notices.push(line);
        this.#options.log?.(line);
      },
    });
    await faultPoint('checkpoint.restore.before');
    const progress = () => ({ bytesRead: reader.bytesRead, notices });
    const damage = (error: unknown) => {
      throwIfAborted('A restore', signal);
      if (!isShoalError(error) || !DAMAGE.has(error.code)) throw error;
      return { ...progress(), damage: messageOf(error) };
    };
    let bundle: BundleReader;
    try {
      bundle = await BundleReader.open(reader, manifest.prefix);
    } catch (error) {
      reader.close();
      return damage(error);
    }
    const assign = async (variable: SavedVariable, value: Tensor): Promise<void> => {
      try {
        throwIfAborted('A restore', signal);
        // Not aborted by the signal: an abandoned run could still assign later.
        await this.#options.access.assign(variable, value);
      } finally {
        value.dispose();
      }
      onProgress?.(reader.bytesRead);
      await faultPoint('checkpoint.restore.amid');
    };
    let before = Promise.resolve();
    try {
      const values = readAhead(variables, (variable) => readVariable(bundle, variable, signal));
      for await (const { variable, value, error } of values) {
        if (!value) return damage(error);
        await before.catch((error: unknown) => {
          value.dispose();
          throw error;
        });
        before = assign(variable, value);
        // Awaited in the next iteration.
        before.catch(() => {});
      }
      await before;
      void replaceDamaged(store, reader.damaged, { log: this.#options.log });
      return progress();
    } finally {
      await before.catch(() => {});
      reader.close();
    }
  }

  /** Releases the held snapshot for the next one, after aborting its write. */
  async #endOther(): Promise<void> {
    const held = this.#held;
    if (held?.writing) {
      held.writing.stop.abort('another snapshot is taken');
      await held.writing.ended;
    }
    this.#release(held);
  }

  #release(held: Held | undefined): void {
    if (!held || this.#held !== held) return;
    clearTimeout(held.timer);
    this.#held = undefined;
    for (const tensor of held.tensors) tensor.dispose();
  }
}

/** Reports the bytes of a source as they are streamed. */
function counted(source: BlobSource, onProgress: ((bytes: number) => void) | undefined): BlobSource {
  if (!onProgress) return source;
  return async function* (offset) {
    let bytes = offset;
    for await (const chunk of source(offset)) {
      yield chunk;
      bytes += chunk.byteLength;
      onProgress(bytes);
    }
  };
}

/** Verifies every copy at its holder. */
async function verifyCopies(
  store: Store,
  blob: string,
  places: readonly string[],
  expected: { readonly size: number; readonly crc32c: number },
  signal: AbortSignal | undefined,
): Promise<void> {
  await Promise.all(
    places.map(async (place) => {
      const found = await store.digest(blob, { place, signal });
      if (found.size === expected.size && found.crc32c === expected.crc32c) return;
      throw readBackMismatch(blob, place);
    }),
  );
}

/** How much is read ahead; at least one value. Small values alone would leave the disk idle between them. */
const AHEAD_BYTES = 32 << 20;
const MAX_AHEAD = 64;

interface ReadAhead {
  readonly variable: SavedVariable;
  readonly value?: Tensor;
  /** Set if the read failed. */
  readonly error?: unknown;
}

/** The values of variables in order; the consumer owns them. */
async function* readAhead(
  variables: readonly SavedVariable[],
  read: (variable: SavedVariable) => Promise<Tensor>,
): AsyncGenerator<ReadAhead> {
  const underWay: { readonly bytes: number; readonly result: Promise<ReadAhead> }[] = [];
  let [next, sum] = [0, 0];
  const more = () => {
    for (; next < variables.length && underWay.length < MAX_AHEAD; next++) {
      const variable = variables[next]!;
      const bytes = sizeOf(variable.shape) * DTYPES[variable.dtype].size;
      if (underWay.length > 0 && sum + bytes > AHEAD_BYTES) return;
      sum += bytes;
      const result = read(variable).then(
        (value) => ({ variable, value }),
        (error: unknown) => ({ variable, error }),
      );
      underWay.push({ bytes, result });
    }
  };
  try {
    for (more(); underWay.length > 0; more()) {
      const { bytes, result } = underWay.shift()!;
      const one = await result;
      sum -= bytes;
      yield one;
    }
  } finally {
    for (const { result } of underWay) (await result.then(({ value }: ReadAhead) => value))?.dispose();
  }
}

/** The value that a variable, or a part of one, has in a checkpoint. */
export async function readVariable(
  bundle: BundleReader,
  variable: SavedVariable,
  signal: AbortSignal | undefined,
): Promise<Tensor> {
  const { key, dtype, shape } = variable;
  const slice = sliceOf(variable);
  if (dtype === 'string') {
    const values = await bundle.readStrings(key, { slice, signal });
    return Tensor.of(values as never, { dtype, shape });
  }
  for (const isDirect of [true, false]) {
    const tensor = Tensor.allocate(shape, dtype, { ownerDisposes: true });
    const into = {
      length: tensor.byteLength,
      set: (bytes: Uint8Array, offset: number) => tensor.setBytes(bytes, offset),
      ...(isDirect && { lend: (start: number, end: number) => tensor.lendBytes(start, end) }),
    };
    try {
      // Every chunk has its own checksum. The tensor's would require reading parts that other tasks own.
      await bundle.read(key, { slice, into, verify: false, signal });
      return tensor;
    } catch (error) {
      tensor.dispose();
      if (!(error instanceof Spoiled)) throw error;
    }
  }
  throw new ShoalError('SHOAL_INTERNAL', `${key} was spoiled by a direct read, but none was requested`);
}
