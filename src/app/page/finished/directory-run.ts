/** One job that does not run, from the directories of its tasks: event files, manifests, blobs and exports. */
import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { ShoalError } from '../../../base/errors/errors.js';
import { decodeManifest } from '../../../distributed/checkpoint/format/manifest.js';
import { parseManifestBlob } from '../../../distributed/checkpoint/format/names.js';
import { DirectoryStore } from '../../../distributed/store/disk/directory-store.js';
import { ExportList } from '../record/exports.js';
import { columns } from '../record/series.js';
import type { SummaryMemory } from '../record/summaries.js';
import type { PageCheckpoint, PageEvent, PageExport, TaskState } from '../state.js';
import { CheckpointList, type DiskState } from '../view/checkpoints.js';
import { DiskFiles } from '../view/disk-files.js';
import { eventFilesIn, readEventFiles } from './event-curves.js';

const TASK_DIRECTORY = /^(chief|worker|ps|evaluator)-(\d+)$/;

export interface RunState {
  /** The name of the job; empty: not known. */
  readonly job: string;
  readonly tasks: readonly TaskState[];
  readonly events: readonly PageEvent[];
  readonly checkpoints: readonly PageCheckpoint[];
  readonly exports: readonly PageExport[];
  readonly summaries: readonly { readonly task: string; readonly memory: SummaryMemory }[];
  /** Copies of the graph of the newest checkpoint. */
  readonly graphs: readonly string[];
}

export class DirectoryRun {
  readonly directory: string;
  #found = '';
  #state: RunState | undefined;

  constructor(directory: string) {
    this.directory = directory;
  }

  /** The directories of its tasks; one of event files alone is its own. */
  async #tasks(): Promise<readonly string[]> {
    const names = (await namesIn(this.directory)).filter((name) => TASK_DIRECTORY.test(name)).sort();
    return names.length > 0 ? names : [''];
  }

  /** The state; the same object as before if no file has changed. */
  async state(): Promise<RunState> {
    const tasks = await this.#tasks();
    const files = await Promise.all(tasks.map((name) => eventFilesIn(join(this.directory, name))));
    const found = (await Promise.all([...files.flat(), ...(await this.#places(tasks))].map(trace))).join();
    if (this.#state === undefined || found !== this.#found) {
      this.#state = await this.#read(tasks, files);
      this.#found = found;
    }
    return this.#state;
  }

  /** Directories that change with a save or an export. */
  async #places(tasks: readonly string[]): Promise<readonly string[]> {
    const job = await this.#job(tasks);
    return tasks.flatMap((name) => [
      join(this.directory, name, 'blobs', job, 'manifests'),
      join(this.directory, name, 'export'),
    ]);
  }

  async #read(names: readonly string[], files: readonly (readonly string[])[]): Promise<RunState> {
    const parts = await Promise.all(names.map((name, i) => this.#task(name, files[i]!)));
    const job = await this.#job(names);
    const checkpoints = await this.#checkpoints(names, job);
    const [newest] = checkpoints;
    return {
      job,
      tasks: parts.flatMap(({ task }) => task ?? []),
      events: [
        ...parts.flatMap(({ events }) => events),
        ...checkpoints.map(
          ({ name, attempt, step, savedAtMs }): PageEvent => ({
            ...{ id: `saved ${attempt}`, at: savedAtMs, type: 'saved', task: 'the chief', step },
            text: `saved ${name}`,
          }),
        ),
      ],
      checkpoints,
      exports: (await Promise.all(names.map((name) => this.#exports(name, job)))).flat(),
      summaries: parts.flatMap(({ task, memory }) => (task ? [{ task: task.task, memory }] : [])),
      graphs: newest
        ? names.map((name) => {
            const folder = `${newest.name}@${newest.attempt}`;
            return join(this.directory, name, 'blobs', job, folder, `${newest.name}.meta`);
          })
        : [],
    };
  }

  async #task(
    name: string,
    files: readonly string[],
  ): Promise<{
    readonly task: TaskState | undefined;
    readonly events: readonly PageEvent[];
    readonly memory: SummaryMemory;
  }> {
    const path = join(this.directory, name);
    const { curves, saves, lastStep, summaries } = await readEventFiles(files, (file) =>
      /[/\\]eval[/\\]/.test(file.slice(path.length)) ? 'eval/' : '',
    );
    const isTask = TASK_DIRECTORY.test(name);
    if (!isTask && files.length === 0) return { task: undefined, events: [], memory: summaries };
    const task = taskOf(name);
    const events = saves.map(({ at, step, path: saved }) => ({
      ...{ id: `saved ${saved} ${at}`, at, type: 'saved' as const, task, step },
      text: `saved ${basename(saved)}`,
    }));
    const state: TaskState = {
      ...{ task, incarnation: 0, first: 0, agentAddress: '', host: name || basename(path), pid: 0 },
      ...{ step: lastStep, status: 'left', silentMs: 0, report: null, reportAgeMs: null },
      curves: [...curves].map(([curve, points]) => columns(curve, points)),
    };
    return { task: state, events, memory: summaries };
  }

  async #exports(name: string, job: string): Promise<readonly PageExport[]> {
    const directory = join(this.directory, name, 'export');
    const exports = new ExportList(job, [directory, join(directory, 'best')]);
    // A directory that cannot be read has none.
    return await exports.read(taskOf(name)).catch(() => []);
  }

  /** The folder of the checkpoints: the name of the job. */
  async #job(names: readonly string[]): Promise<string> {
    for (const name of names) {
      const blobs = join(this.directory, name, 'blobs');
      for (const folder of await readdir(blobs).catch(() => []))
        if ((await readdir(join(blobs, folder, 'manifests')).catch(() => [])).some(isManifest)) return folder;
    }
    return '';
  }

  async #checkpoints(names: readonly string[], job: string): Promise<readonly PageCheckpoint[]> {
    if (job === '') return [];
    const placeOf = (name: string) => name.replace(/-(\d+)$/, '/$1');
    const blobs = new Map(names.map((name) => [placeOf(name), join(this.directory, name, 'blobs')]));
    const disks = await Promise.all(
      [...blobs].map(async ([place, root]): Promise<DiskState> => {
        const files = await new DiskFiles(new DirectoryStore(root), job).list();
        return { place, files, isCurrent: true };
      }),
    );
    const checkpoints = new CheckpointList(job, async (blob, place) =>
      decodeManifest(await readFile(join(blobs.get(place) ?? '', blob)), blob),
    );
    return await checkpoints.state(disks);
  }
}

/** The names in a directory. */
export async function namesIn(directory: string): Promise<readonly string[]> {
  return await readdir(directory).catch((cause: unknown) => {
    throw new ShoalError('SHOAL_NOT_FOUND', `there is no directory ${directory}`, { cause });
  });
}

/** What changes when a file or directory does. */
const trace = async (path: string): Promise<string> => {
  const found = await stat(path).catch(() => undefined);
  return found ? `${path} ${found.size} ${found.mtimeMs}` : '';
};

const isManifest = (name: string): boolean => parseManifestBlob(`manifests/${name}`) !== undefined;

function taskOf(name: string): string {
  const [, job, index] = TASK_DIRECTORY.exec(name) ?? [];
  return job === undefined ? '/job:worker/task:0' : `/job:${job}/task:${index}`;
}
