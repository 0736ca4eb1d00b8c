/**
 * A process that holds variables, doing its part of a checkpoint: it takes references to their values, streams them to
 * the store, and gives variables their values back. One attempt is held at a time; a newer one takes its place.
 */
import { abortError, throwIfAborted } from '../async/deadline.js';
import { faultPoint } from '../async/fault-point.js';
import { checked } from '../cluster/agent/wire.js';
import type { ClusterTask } from '../cluster/task/cluster-task.js';
import { isShoalError, messageOf, type ShoalCode, ShoalError } from '../errors/errors.js';
import { Spoiled } from '../formats/range-reader.js';
import { BundleReader } from '../formats/tensor-bundle/bundle-reader.js';
import { writeIndexFile } from '../formats/tensor-bundle/index-file.js';
import { dataFile } from '../formats/tensor-bundle/naming.js';
import { lendingViews } from '../native/pressure.js';
import { readBackMismatch } from '../store/disk/directory-store.js';
import type { BlobSource, Store } from '../store/store.js';
import { DTYPES } from '../tensor/dtype.js';
import { sizeOf } from '../tensor/shape.js';
import { Tensor } from '../tensor/tensor.js';
import { onLongOrder } from './long-order.js';
import { encodeChunks } from './manifest.js';
import { fileBlob } from './names.js';
import { replaceDamaged } from './replace-damaged.js';
import { type SavedVariable, sliceOf } from './saved-variable.js';
import { ShardImage } from './shard-image.js';
import {
  DropSchema,
  ORDERS,
  type OwnerOptions,
  type RestoredShard,
  type RestoreRequest,
  RestoreSchema,
  type ShardOwner,
  type SnapshotRequest,
  SnapshotSchema,
  type WriteRequest,
  WriteSchema,
  type WrittenShard,
} from './shard-owner.js';
import type { VariableAccess } from './variable-access.js';
import { VerifiedReader } from './verified-reader.js';

export interface ShardServiceOptions {
  readonly access: VariableAccess;
  readonly openStore: (url: string) => Store;
  /** How long a snapshot is kept that nobody asks to be written. */
  readonly holdMs?: number;
  readonly log?: (line: string) => void;
}

/** Errors that tell of the checkpoint, not of who reads it. */
const DAMAGE: ReadonlySet<ShoalCode> = new Set<ShoalCode>(['SHOAL_CORRUPT', 'SHOAL_UNREACHABLE']);

interface Held {
  readonly attempt: string;
  readonly tensors: readonly Tensor[];
  readonly image: ShardImage;
  readonly timer: NodeJS.Timeout;
  /** Present while it is written. Its memory may not go before the write has ended. */
  writing: { readonly stop: AbortController; readonly ended: Promise<unknown> } | undefined;
}

export class ShardService implements ShardOwner {
  readonly #options: ShardServiceOptions;
  #held: Held | undefined;
  #restoring: Promise<unknown> = Promise.resolve();

  constructor(options: ShardServiceOptions) {
    this.#options = options;
  }

  /** Has the service answer the chief's orders. */
  serve(task: ClusterTask): this {
    onLongOrder(task, ORDERS.snapshot, (payload, context) =>
      this.snapshot(checked(SnapshotSchema, payload, 'order'), context),
    );
    onLongOrder(task, ORDERS.write, (payload, context) =>
      this.write(checked(WriteSchema, payload, 'order'), context),
    );
    onLongOrder(task, ORDERS.restore, (payload, context) =>
      this.restore(checked(RestoreSchema, payload, 'order'), context),
    );
    task.onOrder(ORDERS.drop, (payload) => this.drop(checked(DropSchema, payload, 'order').attempt));
    return this;
  }

  async snapshot({ attempt, variables }: SnapshotRequest, { signal }: OwnerOptions = {}) {
    await this.#endOther();
    await faultPoint('checkpoint.snapshot.before');
    const tensors = await this.#options.access.read(variables, { signal });
    await faultPoint('checkpoint.snapshot.after');
    if (signal?.aborted) {
      // Whoever wanted it has told to drop it already, and will not come for it.
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
      log?.(`a snapshot was kept for ${holdMs / 1000} s and nobody asked for it; it is dropped`);
      this.#release(this.#held);
    }, holdMs).unref();
    this.#held = { attempt, tensors, image, timer, writing: undefined };
    return { bytes: image.size };
  }

  async write(request: WriteRequest, options: OwnerOptions = {}): Promise<WrittenShard> {
    const { signal } = options;
    const held = this.#held;
    if (held?.attempt !== request.attempt || held.writing) {
      throw new ShoalError('SHOAL_NOT_FOUND', `The snapshot ${request.attempt} is not kept here any more`);
    }
    const stop = new AbortController();
    const either = AbortSignal.any([stop.signal, ...(signal ? [signal] : [])]);
    const work = lendingViews(() => this.#write(held, request, { ...options, signal: either }));
    held.writing = { stop, ended: work.catch(() => undefined) };
    clearTimeout(held.timer);
    return work;
  }

  async #write(
    held: Held,
    request: WriteRequest,
    { signal, onProgress, orderedBy }: OwnerOptions,
  ): Promise<WrittenShard> {
    const store = this.#options.openStore(request.store);
    const file = dataFile(request.prefix, request.shard, request.shards);
    const blob = fileBlob(request.namespace, request, file);
    const { image } = held;
    try {
      await faultPoint('checkpoint.write.before');
      const put = await store.put(blob, counted(image.source, onProgress), {
        signal,
        size: image.size,
        crc32c: () => image.sums().crc32c,
        readBack: true,
        lasting: true,
        // It is that of one attempt.
        isNew: true,
        orderedBy,
      });
      await faultPoint('checkpoint.write.after');
      const { index, chunks, crc32c } = image.sums();
      const others = put.places.filter((place) => !put.readBack?.includes(place));
      await readBack(store, blob, others, { size: image.size, crc32c }, signal);
      await faultPoint('checkpoint.write.verified');
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
    // What is being written goes with the order that asked for it.
    if (this.#held?.attempt === attempt && !this.#held.writing) this.#release(this.#held);
  }

  /** One after another: values of one that was given up never come after those of the next. */
  restore(request: RestoreRequest, options: OwnerOptions = {}): Promise<RestoredShard> {
    const before = this.#restoring;
    const work = (async () => {
      await before;
      return lendingViews(() => this.#restore(request, options));
    })();
    this.#restoring = work.catch(() => undefined);
    return work;
  }

  /** Values are read while the one before them is handed over: memory for two large ones is all that it takes. */
  async #restore(request: RestoreRequest, { signal, onProgress }: OwnerOptions): Promise<RestoredShard> {
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
    const told = () => ({ bytesRead: reader.bytesRead, notices });
    const damage = (error: unknown) => {
      throwIfAborted('A restore', signal);
      if (!isShoalError(error) || !DAMAGE.has(error.code)) throw error;
      return { ...told(), damage: messageOf(error) };
    };
    let bundle: BundleReader;
    try {
      bundle = await BundleReader.open(reader, manifest.prefix);
    } catch (error) {
      reader.close();
      return damage(error);
    }
    const handOver = async (variable: SavedVariable, value: Tensor): Promise<void> => {
      try {
        throwIfAborted('A restore', signal);
        // To the end, signal or not: a run that is given up may assign all the same, later.
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
        before = handOver(variable, value);
        // Awaited in its turn.
        before.catch(() => {});
      }
      await before;
      void replaceDamaged(store, reader.damaged, { log: this.#options.log });
      return told();
    } finally {
      await before.catch(() => {});
      reader.close();
    }
  }

  /** A snapshot makes room for the next one; if it is being written, that ends first. */
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

/** The bytes of a source, told as they go by. */
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

/** Every copy is read where it lies: what a disk does not give back was not saved. */
async function readBack(
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

/** What is read at once, if it is more than one value: small ones alone would leave the disk idle between them. */
const AHEAD_BYTES = 32 << 20;
const MAX_AHEAD = 64;

interface ReadAhead {
  readonly variable: SavedVariable;
  readonly value?: Tensor;
  /** Where there is no value. */
  readonly error?: unknown;
}

/** The values of variables in order; whoever takes one owns it. */
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
    const values = await bundle.readStrings(key, { slice, ...(signal && { signal }) });
    return Tensor.of(values as never, { dtype, shape });
  }
  for (const isStraight of [true, false]) {
    const tensor = Tensor.allocate(shape, dtype);
    const into = {
      length: tensor.byteLength,
      set: (bytes: Uint8Array, offset: number) => tensor.setBytes(bytes, offset),
      ...(isStraight && { lend: (start: number, end: number) => tensor.lendBytes(start, end) }),
    };
    try {
      // Every chunk is verified by its own sum: reading whole tensors for theirs would read what others own.
      await bundle.read(key, { slice, into, verify: false, signal });
      return tensor;
    } catch (error) {
      tensor.dispose();
      if (!(error instanceof Spoiled)) throw error;
    }
  }
  throw new ShoalError('SHOAL_INTERNAL', `${key} was read to memory that nobody gave`);
}
