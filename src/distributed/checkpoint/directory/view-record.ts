/**
 * Records in `.shoal-view` which files of a directory Shoal has written to show its checkpoints. The directory may hold
 * TensorFlow's own checkpoints with similar names: only a recorded, unchanged file may be replaced or removed.
 */
import { randomBytes } from 'node:crypto';
import { lstat, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';

const FILE = '.shoal-view';
const TEMPORARY = /^\.shoal-view\.[0-9a-f]{16}$/;
/** A temporary file is renamed within seconds; an older one was left by a killed process. */
const TEMPORARY_MS = 3_600_000;

const Schema = v.object({
  version: v.literal(1),
  /** The job whose checkpoints are shown. */
  job: v.optional(v.string()),
  files: v.record(
    v.string(),
    v.object({
      attempt: v.string(),
      size: v.number(),
      modifiedMs: v.number(),
      /** Identifies the file independent of its content: inode and creation time. */
      created: v.optional(v.string()),
    }),
  ),
});

type Mark = v.InferOutput<typeof Schema>['files'][string];

export class ViewRecord {
  readonly directory: string;
  readonly job: string | undefined;
  readonly #files: Map<string, Mark>;
  #isChanged = false;

  private constructor(directory: string, job: string | undefined, files: Map<string, Mark>) {
    this.directory = directory;
    this.job = job;
    this.#files = files;
  }

  /** A missing or damaged record counts as empty. */
  static async read(directory: string): Promise<ViewRecord> {
    const text = await readFile(join(directory, FILE), 'utf8').catch(() => '');
    const parsed = v.safeParse(v.pipe(v.string(), v.parseJson(), Schema), text);
    if (!parsed.success) return new ViewRecord(directory, undefined, new Map());
    const { job, files } = parsed.output;
    return new ViewRecord(directory, job, new Map(Object.entries(files)));
  }

  get isEmpty(): boolean {
    return this.#files.size === 0;
  }

  get files(): readonly string[] {
    return [...this.#files.keys()];
  }

  /** The attempt that a file belongs to; undefined if Shoal did not write its current content. */
  async attemptOf(file: string): Promise<string | undefined> {
    const mark = this.#files.get(file);
    const found = mark && (await markOf(join(this.directory, file), mark.attempt));
    const isSame = found?.size === mark?.size && found?.modifiedMs === mark?.modifiedMs;
    return isSame ? mark?.attempt : undefined;
  }

  /** Whether Shoal created the file, even if its content has changed since. */
  async hasCreated(file: string): Promise<boolean> {
    const { created, attempt = '' } = this.#files.get(file) ?? {};
    return created !== undefined && (await markOf(join(this.directory, file), attempt))?.created === created;
  }

  /** Renames temporary files to their final names. They are recorded first, so a crash leaves no unrecorded file. */
  async publish(
    attempt: string,
    staged: ReadonlyMap<string, string>,
    job: string | undefined,
  ): Promise<void> {
    for (const [file, temporary] of staged) {
      const mark = await markOf(temporary, attempt);
      if (mark) this.#files.set(file, mark);
    }
    this.#isChanged = true;
    try {
      await this.save(job);
      for (const [file, temporary] of staged) await rename(temporary, join(this.directory, file));
    } finally {
      // A failure leaves them. If both names are links to one file, rename does nothing and leaves the temporary name too.
      for (const temporary of staged.values()) await rm(temporary, { force: true });
    }
  }

  /** Removes a file if Shoal wrote it, and always its record. */
  async remove(file: string): Promise<void> {
    if ((await this.attemptOf(file)) !== undefined) await rm(join(this.directory, file), { force: true });
    this.#isChanged ||= this.#files.delete(file);
  }

  async save(job: string | undefined): Promise<void> {
    if (!this.#isChanged) return;
    const record = { version: 1, job, files: Object.fromEntries(this.#files) };
    await replaceFile(this.directory, FILE, Buffer.from(`${JSON.stringify(record)}\n`));
    this.#isChanged = false;
  }
}

async function markOf(path: string, attempt: string): Promise<Mark | undefined> {
  try {
    const { size, mtimeMs: modifiedMs } = await lstat(path);
    const { ino, birthtimeNs } = await lstat(path, { bigint: true });
    return { attempt, size, modifiedMs, ...(birthtimeNs > 0n ? { created: `${ino} ${birthtimeNs}` } : {}) };
  } catch {
    return undefined;
  }
}

export function temporaryPath(directory: string): string {
  return join(directory, `.shoal-view.${randomBytes(8).toString('hex')}`);
}

/** Writes and syncs a temporary file. Leaves none if the disk is full. */
export async function writeTemporary(directory: string, bytes: Uint8Array): Promise<string> {
  const path = temporaryPath(directory);
  return await removedOnFailure(path, async () => {
    const handle = await open(path, 'wx');
    try {
      await handle.writeFile(bytes);
      await handle.sync();
    } finally {
      await handle.close();
    }
    return path;
  });
}

export async function replaceFile(directory: string, file: string, bytes: Uint8Array): Promise<void> {
  const temporary = await writeTemporary(directory, bytes);
  await removedOnFailure(temporary, () => rename(temporary, join(directory, file)));
}

async function removedOnFailure<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  }
}

export async function sweepTemporaries(directory: string, nowMs = Date.now()): Promise<void> {
  for (const file of await readdir(directory)) {
    const path = join(directory, file);
    const stat = TEMPORARY.test(file) ? await lstat(path).catch(() => undefined) : undefined;
    // A hard link shares the mtime of its file; ctime is when the link was made.
    if (stat && nowMs - stat.ctimeMs > TEMPORARY_MS) await rm(path, { force: true });
  }
}
