/**
 * Gives a checkpoint back the copies that it should have. Damaged copies are replaced, missing ones are made on other
 * hosts from a good one, index and manifest go everywhere again. A file of which no copy is good as a whole is put
 * together of the good chunks of several, where that is possible. What was written is summed where it lies.
 */
import { firstLineOf, ShoalError } from '../errors/errors.js';
import { parseDataFile } from '../formats/tensor-bundle/naming.js';
import { type PeerMember, ranked } from '../store/peers/peers.js';
import type { Store } from '../store/store.js';
import type { Manifest, ManifestFile } from './manifest.js';
import { fileBlob, manifestBlob } from './names.js';
import { CHUNK_BYTES } from './shard-image.js';
import { VerifiedReader } from './verified-reader.js';
import { type CopyReport, isGood, type VerifyReport } from './verify.js';

export interface RepairOptions {
  /** Who can hold copies. */
  readonly places: readonly PeerMember[];
  /** Copies of a data file beside the first one; as many as were wanted when it was saved unless told. */
  readonly replicas?: number | undefined;
  /** Tell what would be done, and do nothing. */
  readonly dryRun?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onAction?: ((action: RepairAction) => void) | undefined;
}

export interface RepairAction {
  /** `replace` a damaged copy, `add` a missing one, `rebuild` a file of the good chunks of several copies. */
  readonly type: 'replace' | 'add' | 'rebuild';
  readonly file: string;
  readonly place: string;
  readonly bytes: number;
  /** Why it could not be done. */
  readonly failure?: string | undefined;
}

export interface RepairReport {
  readonly manifest: Manifest;
  readonly actions: readonly RepairAction[];
  /** Files that cannot be had any more. */
  readonly lost: readonly string[];
  /** Copies that are wanted and could not be made. */
  readonly shortfall: number;
}

export const isData = (file: string): boolean => parseDataFile(file) !== undefined;

/** How many copies a checkpoint's data files should have: as many as were wanted when it was saved, unless told. */
export function wantedCopies(manifest: Manifest, replicas = manifest.replicas): number {
  if (replicas !== undefined) return replicas + 1;
  const data = manifest.files.filter(({ file }) => isData(file));
  return Math.max(1, ...data.map(({ places }) => places.length));
}

/** Repairs what a verification has found. */
export async function repairCheckpoint(
  store: Store,
  namespace: string,
  found: VerifyReport,
  options: RepairOptions,
): Promise<RepairReport> {
  return new Repair(store, namespace, found, options).run();
}

class Repair {
  readonly #store: Store;
  readonly #namespace: string;
  readonly #found: VerifyReport;
  readonly #options: RepairOptions;
  readonly #actions: RepairAction[] = [];
  readonly #lost: string[] = [];
  #shortfall = 0;

  constructor(store: Store, namespace: string, found: VerifyReport, options: RepairOptions) {
    this.#store = store;
    this.#namespace = namespace;
    this.#found = found;
    this.#options = options;
  }

  async run(): Promise<RepairReport> {
    const { manifest, files, manifestCopies } = this.#found;
    const copiesWanted = wantedCopies(manifest, this.#options.replicas);
    const everywhere = this.#alive().length;
    for (const [i, { file, copies }] of files.entries()) {
      const entry = manifest.files[i]!;
      const wanted = isData(file) ? Math.min(copiesWanted, everywhere) : everywhere;
      await this.#repairFile(entry, copies, wanted);
    }
    // Last, as when it was saved: who has the manifest finds the files.
    const manifestName = manifestBlob(this.#namespace, manifest);
    await this.#restoreCopies({ file: 'manifest', blob: manifestName, bytes: 0 }, manifestCopies, everywhere);
    return { manifest, actions: this.#actions, lost: this.#lost, shortfall: this.#shortfall };
  }

  #alive(): readonly PeerMember[] {
    return this.#options.places.filter(({ alive }) => alive);
  }

  async #repairFile(entry: ManifestFile, copies: readonly CopyReport[], wanted: number): Promise<void> {
    const { file, size: bytes, crc32c } = entry;
    const blob = fileBlob(this.#namespace, this.#found.manifest, file);
    if (copies.some(isGood)) {
      await this.#restoreCopies({ file, blob, bytes, crc32c }, copies, wanted);
      return;
    }
    const isRebuilt = copies.length > 1 && (await this.#rebuild(entry, blob));
    if (!isRebuilt) this.#lost.push(file);
  }

  /** From a good copy, where there is one. */
  async #restoreCopies(
    target: {
      readonly file: string;
      readonly blob: string;
      readonly bytes: number;
      readonly crc32c?: number;
    },
    copies: readonly CopyReport[],
    wanted: number,
  ): Promise<void> {
    const damaged = new Set(copies.filter((copy) => !isGood(copy)).map(({ place }) => place));
    const holders = new Set(copies.filter(isGood).map(({ place }) => place));
    if (holders.size === 0) return;
    // They go first: a copy that is made must not be made of one of them.
    if (!this.#options.dryRun) await this.#removeAll(target.blob, damaged);
    const refused = new Set<string>();
    for (;;) {
      const place = this.#next(target.blob, damaged, holders, refused, wanted);
      if (place === undefined) break;
      const type = damaged.delete(place) ? 'replace' : 'add';
      const failure = await this.#copy(target, place);
      this.#did({ type, file: target.file, place, bytes: target.bytes, ...(failure && { failure }) });
      (failure === undefined ? holders : refused).add(place);
    }
    this.#shortfall += Math.max(0, wanted - holders.size);
  }

  /** One that cannot be removed stays damaged; what is made of it would not have its sum. */
  async #removeAll(blob: string, places: Iterable<string>): Promise<void> {
    const { signal } = this.#options;
    await Promise.allSettled([...places].map((place) => this.#store.remove(blob, { place, signal })));
  }

  /** The place for the next copy: where one was damaged, then on a host that has none, then anywhere. */
  #next(
    blob: string,
    damaged: ReadonlySet<string>,
    holders: ReadonlySet<string>,
    refused: ReadonlySet<string>,
    wanted: number,
  ): string | undefined {
    if (holders.size >= wanted && damaged.size === 0) return undefined;
    const hosts = new Set(
      this.#options.places.filter(({ place }) => holders.has(place)).map(({ host }) => host),
    );
    const free = ranked(
      blob,
      this.#alive().filter(({ place }) => !holders.has(place) && !refused.has(place)),
    );
    const best =
      free.find(({ place }) => damaged.has(place)) ??
      (holders.size < wanted ? (free.find(({ host }) => !hosts.has(host)) ?? free[0]) : undefined);
    return best?.place;
  }

  /** Makes a copy and has it summed where it lies; tells why that failed. */
  async #copy(
    { blob, crc32c }: { readonly blob: string; readonly crc32c?: number },
    place: string,
  ): Promise<string | undefined> {
    const { dryRun, signal } = this.#options;
    if (dryRun) return undefined;
    try {
      await this.#store.copy(blob, place, { signal });
      const { crc32c: sum } = await this.#store.digest(blob, { place, signal });
      if (crc32c === undefined || sum === crc32c) return undefined;
      await this.#store.remove(blob, { place, signal });
      return 'what arrived there does not have its sum';
    } catch (error) {
      if (signal?.aborted) throw error;
      return firstLineOf(error);
    }
  }

  /** Of several damaged copies, those chunks that are good. */
  async #rebuild(entry: ManifestFile, blob: string): Promise<boolean> {
    const { file, size, crc32c } = entry;
    const { signal, dryRun } = this.#options;
    const reader = new VerifiedReader(this.#store, this.#found.manifest, {
      namespace: this.#namespace,
      signal,
    });
    const source = async function* (offset: number): AsyncGenerator<Uint8Array> {
      for (let at = offset; at < size; ) {
        const length = Math.min(CHUNK_BYTES, size - at);
        yield await reader.read(file, at, length);
        at += length;
      }
    };
    try {
      if (dryRun) {
        for await (const _ of source(0));
        this.#did({ type: 'rebuild', file, place: 'several', bytes: size });
        return true;
      }
      const put = await this.#store.put(blob, source, {
        size,
        signal,
        copies: isData(file) ? 'replicated' : 'everywhere',
      });
      if (put.crc32c !== crc32c) {
        throw new ShoalError('SHOAL_CORRUPT', `${file} was rebuilt with another sum`);
      }
      for (const place of put.places) this.#did({ type: 'rebuild', file, place, bytes: size });
      this.#shortfall += put.shortfall;
      return true;
    } catch (error) {
      if (signal?.aborted || !(error instanceof ShoalError)) throw error;
      return false;
    }
  }

  #did(action: RepairAction): void {
    this.#actions.push(action);
    this.#options.onAction?.(action);
  }
}
