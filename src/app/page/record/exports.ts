/** The exports on the disk of a task, and which serving processes have them. */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { versionsOf } from '../../../training/saved-model/writing/versions.js';
import type { TrainingEvent } from '../../../training/train/task/training-events.js';
import type { PageExport, PagePublication } from '../state.js';

const MOST_EXPORTS = 20;
const MOST_SERVERS = 50;
const MOST_FILES = 5000;
const EVERY_MS = 3000;
/** Exports whose publications are remembered. */
const MOST_PATHS = 50;

interface Noted {
  ms: number | null;
  readonly publications: Map<string, PagePublication>;
}

export class ExportList {
  readonly #job: string;
  readonly #directories: readonly string[];
  readonly #noted = new Map<string, Noted>();
  /** An export does not change once it is there. */
  readonly #found = new Map<string, { readonly bytes: number; readonly at: number }>();
  #listedAt = Number.NEGATIVE_INFINITY;
  #listed: Promise<readonly PageExport[]> = Promise.resolve([]);

  /** @param directories that have a directory for each version. */
  constructor(job: string, directories: readonly string[]) {
    this.#job = job;
    this.#directories = directories;
  }

  /** Takes what is known of an export beside its files. */
  onEvent(event: TrainingEvent, at: number): void {
    if (event.type !== 'exported' && event.type !== 'published') return;
    const noted = this.#noted.get(event.path) ?? { ms: null, publications: new Map() };
    this.#noted.set(event.path, noted);
    for (const path of this.#noted.keys()) {
      if (this.#noted.size <= MOST_PATHS) break;
      this.#noted.delete(path);
    }
    this.#listedAt = Number.NEGATIVE_INFINITY;
    if (event.type === 'exported') noted.ms = event.ms;
    else {
      const { server, state, text } = event;
      if (noted.publications.size < MOST_SERVERS) noted.publications.set(server, { server, state, at, text });
    }
  }

  /** The newest exports of a task, the newest first. */
  list(task: string): Promise<readonly PageExport[]> {
    if (performance.now() - this.#listedAt > EVERY_MS) {
      this.#listedAt = performance.now();
      // A directory that cannot be read has no exports.
      this.#listed = this.#read(task).catch(() => []);
    }
    return this.#listed;
  }

  async #read(task: string): Promise<readonly PageExport[]> {
    const versions = await Promise.all(
      this.#directories.map((directory) => versionsOf(this.#job, directory)),
    );
    const shown = versions
      .flat()
      .sort((a, b) => b.version - a.version)
      .slice(0, MOST_EXPORTS);
    for (const path of this.#found.keys())
      if (!shown.some((version) => version.path === path)) this.#found.delete(path);
    return await Promise.all(
      shown.map(async ({ version, path, origin }) => {
        const found = this.#found.get(path) ?? (await measure(path));
        this.#found.set(path, found);
        const { ms = null, publications } = this.#noted.get(path) ?? {};
        return {
          ...{
            version: String(version),
            task,
            path,
            step: origin.step,
            at: found.at,
            ms,
            bytes: found.bytes,
          },
          publications: [...(publications?.values() ?? [])],
        };
      }),
    );
  }
}

/** The size of all files of an export, and when it was made. */
async function measure(path: string): Promise<{ readonly bytes: number; readonly at: number }> {
  const names = await readdir(path, { recursive: true });
  let bytes = 0;
  for (const name of names.slice(0, MOST_FILES)) {
    const entry = await stat(join(path, name));
    if (entry.isFile()) bytes += entry.size;
  }
  return { bytes, at: Math.round((await stat(path)).mtimeMs) };
}
