/**
 * The job's directory in TensorFlow's layout: the `checkpoint` file, which names the newest checkpoint, and the
 * verified index and `.meta` files of all kept ones. Data files that the store has on this disk are hard-linked; others
 * are added by `gather.ts`, or fetched by `shoal checkpoint pull`.
 *
 * The directory may contain checkpoints that Shoal did not write. Their files are neither replaced nor removed, and the
 * `checkpoint` file keeps listing them, before Shoal's own.
 */
import { link, lstat, readdir, readFile, rm } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { serialQueue } from '../../../base/async/serial-queue.js';
import { crc32c } from '../../../base/bytes/crc32c.js';
import { hintLineOf, isShoalError, messageOf } from '../../../base/errors/errors.js';
import { makeDirectory } from '../../../base/files/directories.js';
import {
  CHECKPOINT_STATE_FILE,
  type CheckpointState,
  formatCheckpointState,
} from '../../../tensorflow/formats/checkpoint-state/checkpoint-state.js';
import { indexFile } from '../../../tensorflow/formats/tensor-bundle/naming.js';
import type { Store } from '../../store/store.js';
import type { Manifest, ManifestFile } from '../format/manifest.js';
import { fileBlob } from '../format/names.js';
import { VerifiedReader } from '../reading/verified-reader.js';
import { readDirectoryState } from './directory-state.js';
import { replaceFile, sweepTemporaries, temporaryPath, ViewRecord, writeTemporary } from './view-record.js';

export interface ViewOptions {
  readonly store: Store;
  readonly namespace: string;
  readonly directory: string;
  /** Local directories in which the store may keep blobs. */
  readonly roots: readonly string[];
  /** The job whose checkpoints these are. */
  readonly job?: string;
  readonly log?: (line: string) => void;
}

interface Entry {
  readonly path: string;
  readonly timestamp: number;
}

const DATA_FILE = /\.data-\d+-of-\d+$/;

const NOT_LINKABLE: ReadonlySet<string | undefined> = new Set(['EXDEV', 'EPERM', 'ENOTSUP', 'EMLINK']);
const isNotLinkable = (error: unknown): boolean => NOT_LINKABLE.has((error as NodeJS.ErrnoException).code);

const NOTE_FILE = 'SHOAL-README.txt';

const noteOf = (
  job: string | undefined,
) => `Some data files of these checkpoints are on the disks of other tasks.

TensorFlow cannot read a checkpoint without all its data files. When training has ended, the last checkpoint is complete
here, unless the option \`gather\` is 'none'. To copy any of them completely to a directory of this machine:

  shoal checkpoint pull latest DIRECTORY${job === undefined ? '' : ` --job ${job}`}

Run it where \`shoal run\` was started, or add --agent HOST:PORT with the address of any running task. If no task runs,
start the ps again, or copy their directories here and name them with --dirs.
\`shoal checkpoint ls\` lists the checkpoints and where they are.
`;

/** The input state is omitted: TensorFlow does not use it, and it may be large. */
const shownFiles = ({ files, inputFile }: Manifest) => files.filter(({ file }) => file !== inputFile);

export class CheckpointView {
  readonly #options: ViewOptions;
  /** Attempts already reported as not shown. */
  readonly #reported = new Set<string>();
  #isSwept = false;
  readonly #inTurn = serialQueue();

  constructor(options: ViewOptions) {
    this.#options = options;
  }

  /** Makes the directory show exactly these checkpoints of Shoal, newest first. A function lists them when it is due. */
  update(manifests: readonly Manifest[] | (() => Promise<readonly Manifest[]>)): Promise<void> {
    return this.#inTurn(async () =>
      this.#update(typeof manifests === 'function' ? await manifests() : manifests),
    );
  }

  async #update(manifests: readonly Manifest[]): Promise<void> {
    const { directory, job } = this.#options;
    await makeDirectory(directory);
    if (!this.#isSwept) await sweepTemporaries(directory);
    this.#isSwept = true;
    const record = await ViewRecord.read(directory);
    const shown: Manifest[] = [];
    for (const manifest of manifests) {
      // Of several with one name, only the newest that can be shown.
      if (shown.some(({ prefix }) => prefix === manifest.prefix)) continue;
      if (await this.#show(record, manifest)) shown.push(manifest);
    }
    await this.#writeState(record, shown);
    const wanted = new Set(manifests.flatMap((manifest) => shownFiles(manifest).map(({ file }) => file)));
    if (await this.#lacksData(shown)) {
      wanted.add(NOTE_FILE);
      await this.#writeNote(record);
    }
    for (const file of record.files) if (!wanted.has(file)) await record.remove(file);
    await record.save(job);
  }

  get directory(): string {
    return this.#options.directory;
  }

  /** The data files that the directory lacks of a checkpoint; none if it does not show the checkpoint. */
  lacking(manifest: Manifest): Promise<readonly ManifestFile[]> {
    return this.#inTurn(async () => {
      const { directory } = this.#options;
      const record = await ViewRecord.read(directory);
      if (!(await this.#isShown(record, manifest))) return [];
      const data = manifest.files.filter(({ file }) => DATA_FILE.test(file));
      const found = await Promise.all(
        data.map(({ file }) => lstat(join(directory, file)).catch(() => undefined)),
      );
      return data.filter((_, i) => !found[i]);
    });
  }

  /** Adds a data file, which `write` writes to a temporary path, if the directory still shows the checkpoint then. */
  async add(manifest: Manifest, file: string, write: (path: string) => Promise<void>): Promise<void> {
    const { directory, job } = this.#options;
    const temporary = temporaryPath(directory);
    try {
      await write(temporary);
      await this.#inTurn(async () => {
        const record = await ViewRecord.read(directory);
        if (await this.#isShown(record, manifest))
          await record.publish(manifest.attempt, new Map([[file, temporary]]), job);
      });
    } finally {
      await rm(temporary, { force: true });
    }
  }

  /** Whether the files of another directory can be hard-linked to this one. */
  async canLinkTo(other: string): Promise<boolean> {
    const { directory } = this.#options;
    await makeDirectory(other);
    const here = await writeTemporary(directory, new Uint8Array());
    const there = temporaryPath(other);
    try {
      await link(here, there);
      return true;
    } catch (error) {
      if (!isNotLinkable(error)) throw error;
      return false;
    } finally {
      await Promise.all([here, there].map((path) => rm(path, { force: true })));
    }
  }

  async #isShown(record: ViewRecord, manifest: Manifest): Promise<boolean> {
    const attempt = await record.attemptOf(indexFile(manifest.prefix));
    return attempt === manifest.attempt || (attempt === undefined && (await this.#isSame(manifest, [])));
  }

  /** Files with the names of a checkpoint that Shoal did not write. */
  async foreignFiles(prefix: string): Promise<readonly string[]> {
    const { directory } = this.#options;
    const record = await ViewRecord.read(directory);
    const files = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return [];
      throw error;
    });
    const foreign: string[] = [];
    for (const file of files) {
      const suffix = file.startsWith(`${prefix}.`) ? file.slice(prefix.length) : '';
      if (suffix !== '.index' && suffix !== '.meta' && !/^\.data-\d+-of-\d+$/.test(suffix)) continue;
      const isOwn = (await record.attemptOf(file)) !== undefined || (await record.hasCreated(file));
      if (!isOwn) foreign.push(file);
    }
    return foreign;
  }

  /**
   * Shows index, `.meta` and the data files on this disk. Returns false if the checkpoint is damaged, or if Shoal did
   * not write existing files of those names.
   */
  async #show(record: ViewRecord, manifest: Manifest): Promise<boolean> {
    const { directory, job } = this.#options;
    const needed: string[] = [];
    const foreign: string[] = [];
    for (const { file } of shownFiles(manifest)) {
      const attempt = await record.attemptOf(file);
      if (attempt === manifest.attempt) continue;
      const isThere = attempt === undefined && (await lstat(join(directory, file)).catch(() => undefined));
      // A file that Shoal created is replaced if its content has changed.
      (isThere && !(await record.hasCreated(file)) ? foreign : needed).push(file);
    }
    if (foreign.length > 0 && !(await this.#isSame(manifest, foreign))) {
      this.#report(
        manifest,
        `it has files of that name that Shoal did not write; use \`shoal checkpoint pull\` to copy it to another directory`,
      );
      return false;
    }
    if (needed.length === 0) return true;
    const staged = new Map<string, string>();
    try {
      await this.#stage(manifest, needed, staged);
    } catch (error) {
      await Promise.all([...staged.values()].map((path) => rm(path, { force: true })));
      if (!isShoalError(error)) throw error;
      this.#report(manifest, messageOf(error));
      return false;
    }
    await record.publish(manifest.attempt, staged, job);
    // Files of an earlier attempt at this step would not match the index.
    for (const file of needed) if (!staged.has(file)) await record.remove(file);
    return true;
  }

  /** Whether data files of a shown checkpoint are not on this disk. */
  async #lacksData(shown: readonly Manifest[]): Promise<boolean> {
    const { directory } = this.#options;
    for (const { file } of shown.flatMap(({ files }) => files)) {
      if (DATA_FILE.test(file) && !(await lstat(join(directory, file)).catch(() => undefined))) return true;
    }
    return false;
  }

  /** Without data files TensorFlow fails with an error that does not explain where they are. */
  async #writeNote(record: ViewRecord): Promise<void> {
    const { directory, job } = this.#options;
    if (await lstat(join(directory, NOTE_FILE)).catch(() => undefined)) return;
    const temporary = await writeTemporary(directory, Buffer.from(noteOf(job)));
    await record.publish(NOTE_FILE, new Map([[NOTE_FILE, temporary]]), job);
  }

  #report({ prefix, attempt }: Manifest, why: string): void {
    const { directory, log } = this.#options;
    if (this.#reported.has(attempt)) return;
    this.#reported.add(attempt);
    log?.(`${directory} does not show ${prefix}: ${why}`);
  }

  /** Whether files that Shoal did not write are those of this checkpoint: the index has a checksum of every tensor. */
  async #isSame({ prefix, files }: Manifest, foreign: readonly string[]): Promise<boolean> {
    const { directory } = this.#options;
    const entry = files.find(({ file }) => file === indexFile(prefix));
    const index = await readFile(join(directory, indexFile(prefix))).catch(() => undefined);
    if (!entry || index?.byteLength !== entry.size || crc32c(index) !== entry.crc32c) return false;
    const sizes = await Promise.all(
      files
        .filter(({ file }) => DATA_FILE.test(file) && foreign.includes(file))
        .map(async ({ file, size }) => (await lstat(join(directory, file))).size === size),
    );
    return sizes.every(Boolean);
  }

  /** Creates temporary files, by final name, for all files that are available here. */
  async #stage(manifest: Manifest, files: readonly string[], staged: Map<string, string>): Promise<void> {
    const { directory, store, namespace } = this.#options;
    const reader = new VerifiedReader(store, manifest, { namespace });
    try {
      for (const { file, size } of manifest.files) {
        if (!files.includes(file)) continue;
        const temporary = DATA_FILE.test(file)
          ? await this.#linkFrom(fileBlob(namespace, manifest, file))
          : await writeTemporary(directory, await reader.read(file, 0, size));
        if (temporary !== undefined) staged.set(file, temporary);
      }
    } finally {
      reader.close();
    }
  }

  /** A hard link to a blob on this disk; undefined if there is none. */
  async #linkFrom(blob: string): Promise<string | undefined> {
    const { roots, directory } = this.#options;
    for (const root of roots) {
      const temporary = temporaryPath(directory);
      try {
        await link(join(root, blob), temporary);
        return temporary;
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code !== 'ENOENT' && !isNotLinkable(error)) throw error;
      }
    }
    return undefined;
  }

  async #writeState(record: ViewRecord, shown: readonly Manifest[]): Promise<void> {
    const { directory, log } = this.#options;
    const before = await readDirectoryState(directory).catch((error: unknown) => {
      log?.(`${messageOf(error)}; the file is replaced${hintLineOf(error)}`);
      return undefined;
    });
    const foreign = before ? await this.#foreignIn(record, before.state, shown) : [];
    const own = shown
      .map(({ prefix, savedAtMs }) => ({ path: prefix, timestamp: savedAtMs / 1000 }))
      .reverse();
    const all = [...foreign, ...own];
    const isNamed = foreign.some(({ path }) => path === before?.state.modelCheckpointPath);
    const state: CheckpointState = {
      modelCheckpointPath:
        shown[0]?.prefix ?? (isNamed ? before?.state.modelCheckpointPath : foreign.at(-1)?.path) ?? '',
      allModelCheckpointPaths: all.map(({ path }) => path),
      allModelCheckpointTimestamps: all.map(({ timestamp }) => timestamp),
      lastPreservedTimestamp: before?.state.lastPreservedTimestamp ?? 0,
    };
    await replaceFile(directory, CHECKPOINT_STATE_FILE, Buffer.from(formatCheckpointState(state)));
  }

  /** The entries of existing checkpoints that Shoal did not write. */
  async #foreignIn(record: ViewRecord, state: CheckpointState, shown: readonly Manifest[]): Promise<Entry[]> {
    const { directory } = this.#options;
    const paths = [...new Set([...state.allModelCheckpointPaths, state.modelCheckpointPath])];
    const times = new Map(
      state.allModelCheckpointPaths.map((path, i) => [path, state.allModelCheckpointTimestamps[i]]),
    );
    const entries: Entry[] = [];
    for (const path of paths) {
      if (path === '' || shown.some(({ prefix }) => prefix === path)) continue;
      const stat = await lstat(indexFile(isAbsolute(path) ? path : join(directory, path))).catch(
        () => undefined,
      );
      if (!stat || (await record.attemptOf(indexFile(path))) !== undefined) continue;
      entries.push({ path, timestamp: times.get(path) ?? stat.mtimeMs / 1000 });
    }
    return entries;
  }
}
