/** The page of one job that does not run, or of several ones side by side, from their directories. */
import { basename } from 'node:path';
import { ShoalError } from '../../../base/errors/errors.js';
import type { LogPart, PageModel, PageState, PageSummaries } from '../state.js';
import type { PageSource } from '../view/page-source.js';
import { DirectoryRun, type RunState } from './directory-run.js';
import { findRuns } from './find-runs.js';
import { beside, type NamedRun } from './runs.js';
import { readStoredModel } from './stored-model.js';

/** Files are looked at again when somebody looks after this time. */
const CURRENT_MS = 5000;
/** Reading takes at most this part of the time. */
const SHARE = 0.1;

export class DirectorySource implements PageSource {
  readonly #runs: readonly NamedRun<DirectoryRun>[];
  readonly #now: () => number;
  #cursor = 0;
  #readAt = Number.NEGATIVE_INFINITY;
  #tookMs = 0;
  #known: readonly RunState[] = [];
  #state: Promise<PageState> | undefined;
  /** The last look that has succeeded. */
  #last: PageState | undefined;
  #model: { readonly of: string; readonly model: Promise<PageModel | null> } | undefined;

  private constructor(runs: readonly NamedRun<DirectoryRun>[], now: () => number) {
    this.#runs = runs;
    this.#now = now;
  }

  /**
   * Fails if a directory has nothing to show.
   *
   * @param now a clock in milliseconds.
   */
  static async open(
    directories: readonly string[],
    now: () => number = () => performance.now(),
  ): Promise<DirectorySource> {
    const runs = await findRuns(directories);
    const source = new DirectorySource(
      runs.map(({ directory, ...run }) => ({ ...run, directory, content: new DirectoryRun(directory) })),
      now,
    );
    await source.state();
    for (const [i, { tasks, checkpoints }] of source.#known.entries())
      if (tasks.length === 0 && checkpoints.length === 0) throw nothingIn(runs[i]!.directory);
    return source;
  }

  state(): Promise<PageState> {
    const currentMs = Math.max(CURRENT_MS, this.#tookMs / SHARE);
    if (this.#state === undefined || this.#now() - this.#readAt > currentMs) {
      this.#readAt = this.#now();
      this.#state = this.#look().finally(() => {
        this.#tookMs = this.#now() - this.#readAt;
      });
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

  /** That of the first run. */
  async model(): Promise<PageModel | null> {
    await this.state();
    const graphs = this.#known[0]?.graphs ?? [];
    const of = graphs.join();
    if (this.#model?.of !== of) this.#model = { of, model: readStoredModel(graphs) };
    return await this.#model.model;
  }

  async summaries(): Promise<PageSummaries> {
    await this.state();
    const isOne = this.#runs.length === 1;
    const parts = this.#known.flatMap(({ summaries }, i) =>
      summaries.map(({ task, memory }) => memory.state(isOne ? task : this.#runs[i]!.name)),
    );
    return {
      histograms: parts.flatMap(({ histograms }) => histograms),
      texts: parts.flatMap(({ texts }) => texts),
      version: `${this.#cursor}`,
    };
  }

  /** The same state as before if no file has changed. */
  async #look(): Promise<PageState> {
    const known = await Promise.all(this.#runs.map(({ content }) => content.state()));
    if (this.#last && known.every((state, i) => state === this.#known[i])) return this.#last;
    this.#known = known;
    this.#cursor += 1;
    const runs = this.#runs.map((run, i) => ({ ...run, content: known[i]! }));
    this.#last = { ...head(this.#cursor), ...(runs.length === 1 ? one(runs[0]!) : beside(runs)) };
    return this.#last;
  }
}

const head = (cursor: number) => ({
  ...{ cursor, now: Date.now(), live: false, self: null, chief: null, epoch: 0, lastStep: null },
  ...{ everyMs: CURRENT_MS, input: null },
});

type Shown = Pick<
  PageState,
  'cluster' | 'tasks' | 'runs' | 'events' | 'checkpoints' | 'exports' | 'configuration'
>;

function one({ directory, content }: NamedRun<RunState>): Shown {
  const { job, tasks, events, checkpoints, exports } = content;
  return {
    ...{ cluster: job || basename(directory), tasks, checkpoints, exports, runs: [] },
    events: [...events].sort((a, b) => a.at - b.at),
    configuration: [
      ['directory', directory],
      ['tasks', tasks.map(({ task }) => task).join(', ')],
    ],
  };
}

const nothingIn = (directory: string): ShoalError =>
  new ShoalError('SHOAL_NOT_FOUND', `${directory} has no directories of tasks and no event files`, {
    hint: 'Name the directory of a job, such as .shoal/JOB, of a sweep, or one with event files.',
  });
