/** The state of a job that does not run, from the directories of its tasks: event files, manifests and blobs. */
import { readdir, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { ShoalError } from '../../../base/errors/errors.js';
import { decodeManifest } from '../../../distributed/checkpoint/format/manifest.js';
import { parseManifestBlob } from '../../../distributed/checkpoint/format/names.js';
import { DirectoryStore } from '../../../distributed/store/disk/directory-store.js';
import { columns } from '../record/series.js';
import type { LogPart, PageEvent, PageState, TaskState } from '../state.js';
import { CheckpointList, type DiskState } from '../view/checkpoints.js';
import { DiskFiles } from '../view/disk-files.js';
import type { PageSource } from '../view/page-source.js';
import { readEventFiles } from './event-curves.js';

const TASK_DIRECTORY = /^(chief|worker|ps|evaluator)-(\d+)$/;
/** Event files are read again when somebody looks after this time. */
const CURRENT_MS = 5000;

export class DirectorySource implements PageSource {
  readonly #directory: string;
  #cursor = 0;
  #readAt = Number.NEGATIVE_INFINITY;
  #state: Promise<PageState> | undefined;

  private constructor(directory: string) {
    this.#directory = directory;
  }

  /** Fails if the directory has nothing to show. */
  static async open(directory: string): Promise<DirectorySource> {
    const source = new DirectorySource(directory);
    const { tasks, checkpoints } = await source.state();
    if (tasks.length > 0 || checkpoints.length > 0) return source;
    throw new ShoalError('SHOAL_NOT_FOUND', `${directory} has no directories of tasks and no event files`, {
      hint: 'Name the directory of a job, such as .shoal/JOB, or one with event files.',
    });
  }

  state(): Promise<PageState> {
    if (this.#state === undefined || performance.now() - this.#readAt > CURRENT_MS) {
      this.#readAt = performance.now();
      this.#state = this.#read();
    }
    return this.#state;
  }

  watch(): () => void {
    return () => {};
  }

  updatesAfter(): readonly PageState[] {
    return [];
  }

  async log(): Promise<LogPart> {
    return { lines: [], dropped: false };
  }

  async #read(): Promise<PageState> {
    const found = await this.#taskDirectories();
    const names = found.length > 0 ? found : [''];
    const parts = await Promise.all(names.map((name) => this.#task(name)));
    const tasks = parts.flatMap(({ task }) => task ?? []);
    const job = await this.#job(names);
    const checkpoints = await this.#checkpoints(names, job);
    this.#cursor += 1;
    return {
      cluster: job || basename(this.#directory),
      cursor: this.#cursor,
      now: Date.now(),
      live: false,
      self: null,
      chief: null,
      epoch: 0,
      lastStep: null,
      everyMs: CURRENT_MS,
      tasks,
      events: [
        ...parts.flatMap(({ events }) => events),
        ...checkpoints.map(
          ({ name, attempt, step, savedAtMs }): PageEvent => ({
            ...{ id: `saved ${attempt}`, at: savedAtMs, type: 'saved', task: 'the chief', step },
            text: `saved ${name}`,
          }),
        ),
      ].sort((a, b) => a.at - b.at),
      checkpoints,
      configuration: [
        ['directory', this.#directory],
        ['tasks', tasks.map(({ task }) => task).join(', ')],
      ],
    };
  }

  async #taskDirectories(): Promise<readonly string[]> {
    const names = await readdir(this.#directory).catch((cause: unknown) => {
      throw new ShoalError('SHOAL_NOT_FOUND', `there is no directory ${this.#directory}`, { cause });
    });
    return names.filter((name) => TASK_DIRECTORY.test(name)).sort();
  }

  async #task(
    name: string,
  ): Promise<{ readonly task: TaskState | undefined; readonly events: readonly PageEvent[] }> {
    const path = join(this.#directory, name);
    const { curves, saves, lastStep } = await readEventFiles(path, (file) =>
      /[/\\]eval[/\\]/.test(file.slice(path.length)) ? 'eval/' : '',
    );
    const [, job, index] = TASK_DIRECTORY.exec(name) ?? [];
    if (job === undefined && curves.size === 0) return { task: undefined, events: [] };
    const task = job === undefined ? '/job:worker/task:0' : `/job:${job}/task:${index}`;
    const events = saves.map(({ at, step, path: saved }) => ({
      ...{ id: `saved ${saved} ${at}`, at, type: 'saved' as const, task, step },
      text: `saved ${basename(saved)}`,
    }));
    const state: TaskState = {
      ...{ task, incarnation: 0, first: 0, agentAddress: '', host: name || basename(path), pid: 0 },
      ...{ step: lastStep, status: 'left', silentMs: 0, report: null, reportAgeMs: null },
      curves: [...curves].map(([curve, points]) => columns(curve, points)),
    };
    return { task: state, events };
  }

  /** The folder of the checkpoints: the name of the job. */
  async #job(names: readonly string[]): Promise<string> {
    for (const name of names) {
      const blobs = join(this.#directory, name, 'blobs');
      for (const folder of await readdir(blobs).catch(() => []))
        if ((await readdir(join(blobs, folder, 'manifests')).catch(() => [])).some(isManifest)) return folder;
    }
    return '';
  }

  async #checkpoints(names: readonly string[], job: string): Promise<PageState['checkpoints']> {
    if (job === '') return [];
    const placeOf = (name: string) => name.replace(/-(\d+)$/, '/$1');
    const blobs = new Map(names.map((name) => [placeOf(name), join(this.#directory, name, 'blobs')]));
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

const isManifest = (name: string): boolean => parseManifestBlob(`manifests/${name}`) !== undefined;
