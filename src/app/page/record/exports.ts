/** The exports on the disk of a task, and which serving processes have them. */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { versionsOf } from '../../../training/saved-model/writing/versions.js';
import type { TrainingEvent } from '../../../training/train/task/training-events.js';
import type { PageExport, PagePublication } from '../state.js';

const MOST_EXPORTS = 20;
const MOST_SERVERS = 50;
const MOST_FILES = 5000;
const EVERY_MS = 3000;
/** A directory may be on another machine that does not answer: others wait for the report of this task. */
const PATIENCE_MS = 300;
const LONGEST_TEXT = 1000;
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
  #listed: readonly PageExport[] = [];
  #reading: Promise<void> | undefined;

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
      if (noted.publications.size < MOST_SERVERS || noted.publications.has(server))
        noted.publications.set(server, { server, state, at, text: text.slice(0, LONGEST_TEXT) });
    }
  }

  /** The newest exports of a task, the newest first. A directory that does not answer in time is as it was. */
  async list(task: string): Promise<readonly PageExport[]> {
    if (!this.#reading && performance.now() - this.#listedAt > EVERY_MS) {
      this.#listedAt = performance.now();
      this.#reading = this.read(task)
        // A directory that cannot be read has no exports.
        .catch(() => [])
        .then((exports) => {
          this.#listed = exports;
          this.#reading = undefined;
        });
    }
    await Promise.race([this.#reading, sleep(PATIENCE_MS, undefined, { ref: false })]);
    return this.#listed;
  }

  /** The same, from the disk. */
  async read(task: string): Promise<readonly PageExport[]> {
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
