/**
 * The disks of all tasks as one store. A blob is stored on the disk of the task that put it, with replicas on other
 * tasks, on other hosts if there are any. A lookup asks all tasks. There is no index that could be out of date: a task
 * that restarts with an empty disk simply has no blobs.
 *
 * A repeated put replaces the reachable copies. A copy on an unreachable task stays stale, so readers that need a
 * specific content verify its checksum.
 */
import { describeError, isShoalError, messageOf, ShoalError } from '../../../base/errors/errors.js';
import { isCopyFault } from '../../../base/errors/system-error.js';
import { blobName } from '../blob-names.js';
import { notFound } from '../disk/blob-disk.js';
import type { DirectoryStore } from '../disk/directory-store.js';
import { copyInto } from '../disk/read-into.js';
import { blobDigest, checkedRange, guarded, sourceOf } from '../sources.js';
import type {
  AddCopiesOptions,
  BlobDigest,
  BlobInfo,
  BlobListOptions,
  BlobSource,
  CopyOptions,
  PlacedCallOptions,
  PutOptions,
  PutResult,
  ReadIntoOptions,
  Store,
  StoreCallOptions,
  StoreReadOptions,
} from '../store.js';
import { directoryBlobs } from './directory-blobs.js';
import {
  checkOwn,
  type PeerBlob,
  type PeerBlobs,
  type PeerMember,
  type PeerReadOptions,
  PeerRefusal,
  type Peers,
  ranked,
  replicaCandidates,
} from './peers.js';
import { spread } from './spread.js';

/** The operations that the store needs of its own task's disk. */
export type OwnDisk = Pick<
  DirectoryStore,
  'stage' | 'put' | 'read' | 'stat' | 'digest' | 'list' | 'remove' | 'sweep' | 'close'
> &
  Partial<Pick<DirectoryStore, 'readInto'>>;

export interface PeersStoreOptions {
  readonly peers: Peers;
  /** The directory that this task's agent serves. */
  readonly directory: OwnDisk;
  /** The number of copies on other tasks; default: 1. */
  readonly replicas?: number;
  readonly log?: (line: string) => void;
}

interface PlaceFault {
  readonly place: string;
  readonly error: unknown;
}

interface Holder {
  readonly place: string;
  readonly blob: PeerBlob;
}

/** The timeout per task of a request to all tasks. */
const ASK_MS = 5000;
const AWAY: ReadonlySet<string> = new Set([
  'SHOAL_UNREACHABLE',
  'SHOAL_TIMEOUT',
  'SHOAL_DISPOSED',
  'SHOAL_NOT_FOUND',
]);

export class PeersStore implements Store {
  readonly kind = 'peers';
  readonly url: string = 'peers:';
  readonly replicas: number;
  readonly #peers: Peers;
  readonly #directory: OwnDisk;
  readonly #log: ((line: string) => void) | undefined;

  constructor({ peers, directory, replicas = 1, log }: PeersStoreOptions) {
    this.#peers = peers;
    this.#directory = directory;
    this.replicas = replicas;
    this.#log = log;
  }

  /** This task's own place. */
  get self(): string {
    return this.#peers.self;
  }

  async put(
    name: string,
    source: BlobSource | Uint8Array,
    { ifAbsent = false, ...options }: PutOptions = {},
  ): Promise<PutResult> {
    blobName(name);
    if (!ifAbsent) return this.#spread(name, source, options);
    const claim = await this.#claim(name, source, options);
    if (claim === undefined) {
      const digest = await blobDigest(guarded(sourceOf(source)(0), `reading the source of ${name}`, options));
      return { published: false, ...digest, places: await this.locate(name, options), shortfall: 0 };
    }
    try {
      const result = await this.#spread(name, source, options);
      return { ...result, places: [...new Set([...result.places, claim])] };
    } catch (error) {
      await this.#at(claim)
        .remove(name, { timeoutMs: ASK_MS })
        .catch(() => {});
      throw error;
    }
  }

  async #spread(name: string, source: BlobSource | Uint8Array, options: PutOptions): Promise<PutResult> {
    const everywhere = options.copies === 'everywhere';
    const candidates = everywhere ? this.#others() : replicaCandidates(this.#peers, name);
    const wanted = everywhere ? candidates.length : this.replicas;
    const [chosen, spare] = [candidates.slice(0, wanted), candidates.slice(wanted)];
    const before = options.isNew ? Promise.resolve([]) : this.#holders(name, options);
    before.catch(() => {});
    const parts = { peers: this.#peers, directory: this.#directory, chosen, spare, wanted };
    const result = await spread(parts, name, source, options);
    const stale = (await before).filter(({ place }) => !result.places.includes(place));
    // Old copies of the replaced blob. One that cannot be removed is treated like one on an unreachable task.
    await Promise.allSettled(stale.map(({ place }) => this.#at(place).remove(name, { timeoutMs: ASK_MS })));
    return result;
  }

  /**
   * Writes the first copy to the place that all writers of that name try first: there only one succeeds. Returns the
   * place, or undefined when the name is taken. Writers that disagree about which tasks are alive may both succeed.
   */
  async #claim(
    name: string,
    source: BlobSource | Uint8Array,
    options: PutOptions,
  ): Promise<string | undefined> {
    if ((await this.locate(name, options)).length > 0) return undefined;
    const { copies: _, crc32c: __, ...bounds } = options;
    const alive = this.#peers.members().filter(({ place, alive }) => alive || place === this.self);
    for (const { place } of ranked(name, alive)) {
      try {
        if (place === this.self) checkOwn(this.#peers, name, options.orderedBy);
        const { published } = await this.#at(place).write(name, source, { ...bounds, ifAbsent: true });
        return published ? place : undefined;
      } catch (error) {
        if (place === this.self || !isAway(error)) throw error;
      }
    }
    throw new ShoalError('SHOAL_INTERNAL', `${this.self} is not among the members of its cluster`);
  }

  async *read(name: string, options: StoreReadOptions = {}): AsyncGenerator<Uint8Array> {
    const { place, signal, timeoutMs } = options;
    blobName(name);
    const { start, end } = checkedRange(options);
    if (place !== undefined) {
      yield* this.#at(place).read(name, { start, end, signal, timeoutMs });
      return;
    }
    yield* this.#readAnywhere(name, { start, end, signal, timeoutMs }, new Set());
  }

  async readInto(name: string, into: Uint8Array, options: ReadIntoOptions = {}): Promise<void> {
    const { start = 0, place, signal, timeoutMs, onIdle, kept } = options;
    if (place === this.self && this.#directory.readInto) {
      return this.#directory.readInto(name, into, { start, signal, timeoutMs, onIdle, kept });
    }
    const end = start + into.byteLength;
    await copyInto(this.read(name, { start, end, place, signal, timeoutMs }), into, onIdle);
  }

  /** Reads the nearest copy, and continues with the next one after a failure. */
  async *#readAnywhere(
    name: string,
    options: StoreReadOptions & { readonly start: number },
    except: ReadonlySet<string>,
  ): AsyncGenerator<Uint8Array> {
    const { end, signal, timeoutMs } = options;
    const failures: PlaceFault[] = [];
    let offset = options.start;
    for await (const { place, ...bounds } of this.#copies(name, options, except)) {
      try {
        for await (const chunk of this.#at(place).read(name, {
          signal,
          timeoutMs,
          ...bounds,
          start: offset,
          end,
        })) {
          offset += chunk.byteLength;
          yield chunk;
        }
        return;
      } catch (error) {
        if (signal?.aborted) throw error;
        if (!isShoalError(error, 'SHOAL_NOT_FOUND')) failures.push({ place, error });
      }
    }
    if (failures.length === 0) {
      const away = this.#peers.members().filter(({ alive }) => !alive);
      throw away.length === 0
        ? notFound(name)
        : new ShoalError('SHOAL_NOT_FOUND', `no reachable task has blob ${name}`, {
            hint: `unreachable tasks: ${away.map(({ place }) => place).join(', ')}`,
          });
    }
    const [first] = failures;
    if (failures.length === 1) throw first!.error;
    const why = failures.map(({ place, error }) => `${place}: ${messageOf(error)}`).join('; ');
    const code = isShoalError(first!.error) ? first!.error.code : 'SHOAL_UNREACHABLE';
    throw new ShoalError(code, `no copy of blob ${name} could be read from byte ${offset} on: ${why}`, {
      cause: first!.error,
    });
  }

  /** The places to try in order: this task, the tasks that report a copy, the tasks that seem unreachable. */
  async *#copies(
    name: string,
    options: StoreCallOptions,
    except: ReadonlySet<string>,
  ): AsyncGenerator<{ readonly place: string } & Pick<PeerReadOptions, 'attempts' | 'timeoutMs'>> {
    if (!except.has(this.self)) yield { place: this.self };
    const holders = (await this.#holders(name, options)).filter(
      ({ place }) => place !== this.self && !except.has(place),
    );
    for (const [index, { place }] of holders.entries()) {
      yield index + 1 < holders.length ? { place, attempts: 2 } : { place };
    }
    for (const { place, alive } of this.#peers.members()) {
      if (!alive && place !== this.self && !except.has(place))
        yield { place, attempts: 1, timeoutMs: ASK_MS };
    }
  }

  async locate(name: string, options: StoreCallOptions = {}): Promise<readonly string[]> {
    return (await this.#holders(name, options)).map(({ place }) => place);
  }

  async stat(name: string, options: PlacedCallOptions = {}): Promise<BlobInfo | undefined> {
    const { place } = options;
    if (place !== undefined) {
      const blob = await this.#at(place).stat(name, options);
      return blob && { ...pick(blob), places: [place] };
    }
    const holders = await this.#holders(name, options);
    const [nearest] = holders;
    if (nearest === undefined) return undefined;
    const same = holders.filter(({ blob }) => blob.size === nearest.blob.size);
    return { ...pick(nearest.blob), places: same.map((holder) => holder.place) };
  }

  /** Without a place: the digest of the nearest copy. */
  async digest(name: string, options: PlacedCallOptions = {}): Promise<BlobDigest> {
    const { signal, timeoutMs, place = (await this.locate(name, options))[0] } = options;
    if (place === undefined) throw notFound(name);
    return this.#at(place).digest(name, { signal, timeoutMs });
  }

  async *list(prefix = '', options: BlobListOptions = {}): AsyncGenerator<BlobInfo> {
    const found = new Map<string, Holder[]>();
    const note = (place: string, blob: PeerBlob) => {
      const holders = found.get(blob.name);
      if (holders === undefined) found.set(blob.name, [{ place, blob }]);
      else holders.push({ place, blob });
    };
    for (const { place, alive } of this.#peers.members())
      if (!alive && place !== this.self) options.onUnanswered?.(place);
    const faults = await this.#askEveryone(options, async (place, blobs, bounds) => {
      for await (const blob of blobs.list(prefix, bounds)) note(place, blob);
    });
    this.#skip(faults, `listing ${prefix}`, found.size > 0);
    for (const unordered of found.values()) {
      const holders = this.#nearestFirst(unordered);
      const { blob } = holders[0]!;
      const places = holders.filter((holder) => holder.blob.size === blob.size).map(({ place }) => place);
      yield { ...pick(blob), places };
    }
  }

  async remove(name: string, options: PlacedCallOptions = {}): Promise<void> {
    blobName(name);
    const { place } = options;
    if (place !== undefined) {
      if (place === this.self) checkOwn(this.#peers, name);
      return this.#at(place).remove(name, options);
    }
    // The others first: if one of them refuses, the own copy must stay too.
    const remove: Ask = (_, blobs, bounds) => blobs.remove(name, bounds);
    const faults = await this.#askAll(
      this.#others().map((other) => other.place),
      options,
      remove,
    );
    checkOwn(this.#peers, name);
    this.#skip([...faults, ...(await this.#askAll([this.self], options, remove))], `removing ${name}`, false);
  }

  async copy(name: string, to: string, options: CopyOptions = {}): Promise<void> {
    const { signal, timeoutMs, from } = options;
    if (from !== undefined) {
      const blob = await this.#at(from).stat(name, { signal, timeoutMs });
      if (blob === undefined) throw notFound(name);
      if (to === this.self) checkOwn(this.#peers, name);
      const only: BlobSource = (start) => this.#at(from).read(name, { signal, timeoutMs, start });
      await this.#at(to).write(name, only, { signal, timeoutMs, size: blob.size });
      return;
    }
    const others = (await this.#holders(name, options)).filter(({ place }) => place !== to);
    const size = others[0]?.blob.size;
    if (size === undefined) throw notFound(name);
    if (to === this.self) checkOwn(this.#peers, name);
    const except = new Set([to]);
    const source: BlobSource = (start) => this.#readAnywhere(name, { signal, timeoutMs, start }, except);
    await this.#at(to).write(name, source, { signal, timeoutMs, size });
  }

  async addCopies(
    name: string,
    { holders, wanted, crc32c, ...bounds }: AddCopiesOptions,
  ): Promise<readonly string[]> {
    const places = [...holders];
    const hostOf = new Map(this.#peers.members().map(({ place, host }) => [place, host]));
    const isFree = ({ place, alive }: PeerMember) =>
      (alive || place === this.self) && !places.includes(place);
    const free = [...ranked(name, this.#peers.members().filter(isFree))];
    const sharesHost = ({ host }: PeerMember) => Number(places.some((place) => hostOf.get(place) === host));
    while (places.length < wanted && free.length > 0) {
      const [next] = [...free].sort((a, b) => sharesHost(a) - sharesHost(b) || (a.turn ?? 0) - (b.turn ?? 0));
      const { place } = next!;
      free.splice(free.indexOf(next!), 1);
      try {
        await this.copy(name, place, bounds);
        const isSame = (await this.digest(name, { ...bounds, place })).crc32c === crc32c;
        if (isSame) places.push(place);
        else await this.remove(name, { ...bounds, place });
      } catch (error) {
        if (bounds.signal?.aborted || error instanceof PeerRefusal) throw error;
        this.#log?.(`no copy of ${name} at ${place}: ${describeError(error)}`);
      }
    }
    return places;
  }

  /** Sweeps this task's own disk; the others sweep theirs. */
  sweep(options: { readonly olderThanMs?: number | undefined } = {}): Promise<number> {
    return this.#directory.sweep(options);
  }

  async close(): Promise<void> {
    await this.#directory.close();
  }

  #others() {
    return this.#peers.members().filter(({ place, alive }) => alive && place !== this.self);
  }

  /** The blobs of any task, this one included. */
  #at(place: string): PeerBlobs {
    return place === this.self ? directoryBlobs(this.#directory) : this.#peers.blobs(place);
  }

  /** The places with the blob, nearest first. */
  async #holders(name: string, options: StoreCallOptions): Promise<readonly Holder[]> {
    const found: Holder[] = [];
    const faults = await this.#askEveryone(options, async (place, blobs, bounds) => {
      const blob = await blobs.stat(name, bounds);
      if (blob !== undefined) found.push({ place, blob });
    });
    this.#skip(faults, `looking for ${name}`, found.length > 0);
    return this.#nearestFirst(found);
  }

  /** This task first, then the most recently written copies. */
  #nearestFirst(holders: readonly Holder[]): readonly Holder[] {
    const own = ({ place }: Holder) => Number(place === this.self);
    return [...holders].sort(
      (a, b) => own(b) - own(a) || b.blob.modifiedMs - a.blob.modifiedMs || (a.place < b.place ? -1 : 1),
    );
  }

  /**
   * Asks all tasks, this one included, concurrently. Skips tasks that are unreachable or too slow; returns the places
   * whose disk fails.
   */
  #askEveryone(options: AskOptions, ask: Ask): Promise<readonly PlaceFault[]> {
    return this.#askAll([this.self, ...this.#others().map(({ place }) => place)], options, ask);
  }

  async #askAll(places: readonly string[], options: AskOptions, ask: Ask): Promise<readonly PlaceFault[]> {
    const bounds = askBounds(options);
    const faults: PlaceFault[] = [];
    await Promise.all(
      places.map(async (place) => {
        try {
          await ask(place, this.#at(place), bounds);
        } catch (error) {
          if (place !== this.self && isAway(error)) {
            // A task without blobs has answered.
            if (!isShoalError(error, 'SHOAL_NOT_FOUND')) options.onUnanswered?.(place);
            return;
          }
          if (options.signal?.aborted || !isCopyFault(error)) throw error;
          faults.push({ place, error });
        }
      }),
    );
    return faults;
  }

  /** Logs failing disks if other places answered; otherwise throws the first failure. */
  #skip(faults: readonly PlaceFault[], what: string, hasOthers: boolean): void {
    if (faults[0] && !hasOthers) throw faults[0].error;
    for (const { place, error } of faults) this.#log?.(`${what}: skipped ${place}: ${describeError(error)}`);
  }
}

type AskOptions = Pick<BlobListOptions, 'signal' | 'timeoutMs' | 'onUnanswered'>;
type Ask = (place: string, blobs: PeerBlobs, bounds: StoreCallOptions) => Promise<void>;

function askBounds({ signal, timeoutMs = ASK_MS }: StoreCallOptions): StoreCallOptions {
  return { signal, timeoutMs: Math.min(timeoutMs, ASK_MS) };
}

/** Whether a failure only means that a task cannot be asked right now. */
function isAway(error: unknown): boolean {
  return isShoalError(error) && AWAY.has(error.code);
}

function pick({ name, size, modifiedMs }: PeerBlob): PeerBlob {
  return { name, size, modifiedMs };
}
