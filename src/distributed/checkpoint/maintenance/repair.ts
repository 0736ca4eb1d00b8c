/**
 * Restores the copies that a checkpoint should have. Damaged copies are replaced, missing ones are made on other hosts
 * from a good one, index and manifest are copied to all tasks. A file without a good copy is rebuilt from the good
 * chunks of several copies, if possible. Each new copy is verified by its holder.
 */
import { firstLineOf, ShoalError } from '../../../base/errors/errors.js';
import { parseDataFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import { type PeerMember, ranked } from '../../store/peers/peers.js';
import type { Store } from '../../store/store.js';
import type { Manifest, ManifestFile } from '../format/manifest.js';
import { fileBlob, manifestBlob } from '../format/names.js';
import { fileSource, VerifiedReader } from '../reading/verified-reader.js';
import { type CopyReport, isGood, type VerifyReport } from './verify.js';

export interface RepairPlace extends PeerMember {
  /** Whether its task is no longer part of the cluster: it gets copies only if too few others can. Default: false. */
  readonly hasLeft?: boolean;
}

export interface RepairOptions {
  /** The places that can hold copies. */
  readonly places: readonly RepairPlace[];
  /** Copies of a data file in addition to the first; default: as requested when it was saved. */
  readonly replicas?: number;
  /** Report the actions without performing them. */
  readonly dryRun?: boolean;
  readonly signal?: AbortSignal;
  readonly onAction?: (action: RepairAction) => void;
}

export interface RepairAction {
  /** `replace` a damaged copy, `add` a missing one, `rebuild` a file from the good chunks of several copies. */
  readonly type: 'replace' | 'add' | 'rebuild';
  readonly file: string;
  readonly place: string;
  readonly bytes: number;
  /** Why the action failed. */
  readonly failure?: string;
}

export interface RepairReport {
  readonly manifest: Manifest;
  readonly actions: readonly RepairAction[];
  /** Files that could not be recovered. */
  readonly lost: readonly string[];
  /** How many requested copies could not be made. */
  readonly shortfall: number;
}

export const isData = (file: string): boolean => parseDataFile(file) !== undefined;

/** How many copies each data file should have; default: as requested when it was saved. */
export function wantedCopies(manifest: Manifest, replicas = manifest.replicas): number {
  if (replicas !== undefined) return replicas + 1;
  const data = manifest.files.filter(({ file }) => isData(file));
  return Math.max(1, ...data.map(({ places }) => places.length));
}

/** Repairs the damage that a verification found. */
export async function repairCheckpoint(
  store: Store,
  namespace: string,
  found: VerifyReport,
  options: RepairOptions,
): Promise<RepairReport> {
  return new Repair(store, namespace, found, options).run();
}

/** A number of copies, or the places that should have one. */
type Wanted = number | ReadonlySet<string>;

const missingFrom = (holders: ReadonlySet<string>, wanted: Wanted): number =>
  typeof wanted === 'number'
    ? Math.max(0, wanted - holders.size)
    : [...wanted].filter((place) => !holders.has(place)).length;

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
    const everywhere = new Set(this.#members().map(({ place }) => place));
    for (const [i, { file, copies }] of files.entries()) {
      const entry = manifest.files[i]!;
      const wanted = isData(file) ? Math.min(copiesWanted, this.#alive().length) : everywhere;
      await this.#repairFile(entry, copies, wanted);
    }
    // Last, as in a save: the holder of a manifest finds the files.
    const manifestName = manifestBlob(this.#namespace, manifest);
    await this.#restoreCopies({ file: 'manifest', blob: manifestName, bytes: 0 }, manifestCopies, everywhere);
    return { manifest, actions: this.#actions, lost: this.#lost, shortfall: this.#shortfall };
  }

  /** The places that are part of the cluster. */
  #members(): readonly RepairPlace[] {
    return this.#alive().filter(({ hasLeft }) => !hasLeft);
  }

  #alive(): readonly RepairPlace[] {
    return this.#options.places.filter(({ alive }) => alive);
  }

  async #repairFile(entry: ManifestFile, copies: readonly CopyReport[], wanted: Wanted): Promise<void> {
    const { file, size: bytes, crc32c } = entry;
    const blob = fileBlob(this.#namespace, this.#found.manifest, file);
    if (copies.some(isGood)) {
      await this.#restoreCopies({ file, blob, bytes, crc32c }, copies, wanted);
      return;
    }
    const isRebuilt = copies.length > 1 && (await this.#rebuild(entry, blob));
    if (!isRebuilt) this.#lost.push(file);
  }

  /** Copies from a good copy, if there is one. */
  async #restoreCopies(
    target: {
      readonly file: string;
      readonly blob: string;
      readonly bytes: number;
      readonly crc32c?: number;
    },
    copies: readonly CopyReport[],
    wanted: Wanted,
  ): Promise<void> {
    const damaged = new Set(copies.filter((copy) => !isGood(copy)).map(({ place }) => place));
    const holders = new Set(copies.filter(isGood).map(({ place }) => place));
    if (holders.size === 0) return;
    // Damaged copies are removed first: a new copy must not be made from one of them.
    if (!this.#options.dryRun) await this.#removeAll(target.blob, damaged);
    const refused = new Set<string>();
    for (;;) {
      const place = this.#next(target.blob, damaged, holders, refused, wanted);
      if (place === undefined) break;
      const type = damaged.delete(place) ? 'replace' : 'add';
      const failure = await this.#copy(target, place);
      this.#did({ type, file: target.file, place, bytes: target.bytes, failure });
      (failure === undefined ? holders : refused).add(place);
    }
    this.#shortfall += missingFrom(holders, wanted);
  }

  /** Failures are ignored: a copy made from a remaining damaged one fails its checksum. */
  async #removeAll(blob: string, places: Iterable<string>): Promise<void> {
    const { signal } = this.#options;
    await Promise.allSettled([...places].map((place) => this.#store.remove(blob, { place, signal })));
  }

  /** The place for the next copy: first where a copy was damaged, then a host without a copy, then anywhere. */
  #next(
    blob: string,
    damaged: ReadonlySet<string>,
    holders: ReadonlySet<string>,
    refused: ReadonlySet<string>,
    wanted: Wanted,
  ): string | undefined {
    const isEnough = missingFrom(holders, wanted) === 0;
    if (isEnough && damaged.size === 0) return undefined;
    const hosts = new Set(
      this.#options.places.filter(({ place }) => holders.has(place)).map(({ host }) => host),
    );
    const free = ranked(
      blob,
      this.#alive().filter(({ place }) => !holders.has(place) && !refused.has(place)),
    );
    const isDue = ({ place }: RepairPlace) => typeof wanted === 'number' || wanted.has(place);
    const useful = isEnough
      ? []
      : free.filter(isDue).sort((a, b) => Number(a.hasLeft ?? 0) - Number(b.hasLeft ?? 0));
    const best =
      free.find(({ place }) => damaged.has(place)) ??
      useful.find(({ host }) => !hosts.has(host)) ??
      useful[0];
    return best?.place;
  }

  /** Makes a copy and verifies it at its holder; returns the reason of a failure. */
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
      return 'the new copy has a wrong checksum';
    } catch (error) {
      if (signal?.aborted) throw error;
      return firstLineOf(error);
    }
  }

  /** Rebuilds a file from the good chunks of damaged copies. */
  async #rebuild(entry: ManifestFile, blob: string): Promise<boolean> {
    const { file, size, crc32c } = entry;
    const { signal, dryRun } = this.#options;
    const reader = new VerifiedReader(this.#store, this.#found.manifest, {
      namespace: this.#namespace,
      signal,
    });
    const source = fileSource(reader, entry);
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
        throw new ShoalError('SHOAL_CORRUPT', `the rebuilt ${file} has a wrong checksum`);
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
