/**
 * The checkpoints of a job, and on which disk each copy of their files is. Copies are compared by size;
 * `shoal checkpoint verify` compares checksums.
 */
import type { Manifest } from '../../../distributed/checkpoint/format/manifest.js';
import { fileBlob, parseManifestBlob } from '../../../distributed/checkpoint/format/names.js';
import type { CopyHealth, PageCheckpoint, StoredFile } from '../state.js';

/** The files on the disk of a task. */
export interface DiskState {
  /** The task as a place: `ps/0`. */
  readonly place: string;
  readonly files: readonly StoredFile[];
  /** Whether the task has answered just now. */
  readonly isCurrent: boolean;
}

/** Reads a manifest from the disk of a place; undefined if it cannot be read. */
export type ReadManifestOf = (blob: string, place: string) => Promise<Manifest | undefined>;

const MOST_CHECKPOINTS = 8;
/** The files of a disk may have been listed so long ago: see `DiskFiles`. */
const LISTED_MS = 6000;
/** A grid with more rows shows nothing. */
const MOST_FILES = 260;

export class CheckpointList {
  readonly #namespace: string;
  readonly #read: ReadManifestOf;
  readonly #now: () => number;
  readonly #manifests = new Map<string, Manifest>();

  /** @param now the wall clock, in milliseconds. */
  constructor(namespace: string, read: ReadManifestOf, now: () => number = Date.now) {
    this.#namespace = namespace;
    this.#read = read;
    this.#now = now;
  }

  /** The newest checkpoints, the newest first. */
  async state(disks: readonly DiskState[]): Promise<readonly PageCheckpoint[]> {
    const manifests = await this.#newest(disks);
    const sizes = new Map(
      disks.map(({ place, files }) => [place, new Map(files.map(({ name, size }) => [name, size]))]),
    );
    return manifests.map((manifest) => ({
      name: manifest.prefix,
      step: manifest.step,
      attempt: manifest.attempt,
      savedAtMs: manifest.savedAtMs,
      bytes: manifest.files.reduce((sum, { size }) => sum + size, 0),
      tensors: manifest.tensors,
      files: manifest.files.slice(0, MOST_FILES).map(({ file, size, places }) => {
        const blob = fileBlob(this.#namespace, manifest, file);
        const copies: Record<string, CopyHealth> = {};
        for (const place of places) copies[place] = 'unknown';
        for (const { place, isCurrent } of disks) {
          const found = sizes.get(place)?.get(blob);
          if (found === undefined && !places.includes(place)) continue;
          // A disk that was listed before the save has none of its files.
          const isYoung = this.#now() - manifest.savedAtMs < LISTED_MS;
          const isKnown = isCurrent && (found !== undefined || !isYoung);
          copies[place] = isKnown ? healthOf(found, size) : 'unknown';
        }
        return { file, size, copies };
      }),
    }));
  }

  async #newest(disks: readonly DiskState[]): Promise<readonly Manifest[]> {
    const places = new Map<string, string[]>();
    for (const { place, files, isCurrent } of disks) {
      for (const { name } of files) {
        if (parseManifestBlob(name) === undefined) continue;
        const known = places.get(name) ?? [];
        places.set(name, isCurrent ? [place, ...known] : [...known, place]);
      }
    }
    // Names begin with the sequence.
    const names = [...places.keys()].sort().reverse().slice(0, MOST_CHECKPOINTS);
    for (const known of this.#manifests.keys()) if (!names.includes(known)) this.#manifests.delete(known);
    const read = await Promise.all(
      names.map(async (name) => {
        const known = this.#manifests.get(name);
        if (known) return known;
        for (const place of places.get(name) ?? []) {
          const manifest = await this.#read(name, place).catch(() => undefined);
          if (manifest === undefined) continue;
          this.#manifests.set(name, manifest);
          return manifest;
        }
        return undefined;
      }),
    );
    return read.filter((manifest) => manifest !== undefined);
  }
}

function healthOf(found: number | undefined, size: number): CopyHealth {
  if (found === undefined) return 'missing';
  return found === size ? 'good' : 'damaged';
}
