/** What only some tasks have, and pages ask for when they show it: the model and the summaries. */
import { isPresent } from '../../../distributed/cluster/membership/types.js';
import { type TaskId, trains } from '../../../distributed/cluster/spec/task-id.js';
import type { Server } from '../../../training/train/task/server.js';
import type { PageModel, PageSummaries } from '../state.js';
import { checkedModel, checkedSummaries } from './wire.js';

export const MODEL = 'page-model';
export const SUMMARIES = 'page-summaries';

const ANSWER_MS = 5000;
/** All pages get the same summaries for this time. */
const CURRENT_MS = 2000;
/** Tasks that are asked for the model; the graphs of all workers are alike. */
const MOST_ASKED = 3;

export interface TaskPartsOptions {
  readonly server: Server;
  readonly ownModel: () => Promise<PageModel | null>;
  readonly ownSummaries: () => PageSummaries;
}

export class TaskParts {
  readonly #options: TaskPartsOptions;
  #model: { readonly from: string; readonly model: PageModel } | undefined;
  #summaries: Promise<PageSummaries> | undefined;
  #askedAt = Number.NEGATIVE_INFINITY;

  constructor(options: TaskPartsOptions) {
    this.#options = options;
  }

  /** The model of the chief; without it that of another worker, or the last one known. */
  async model(): Promise<PageModel | null> {
    const { server, ownModel } = this.#options;
    const { task: self } = server;
    for (const task of this.#tasks((one) => trains(one)).slice(0, MOST_ASKED)) {
      const from = `${task} ${self.member(task)?.incarnation}`;
      if (this.#model?.from === from) break;
      try {
        const model =
          task === self.task
            ? await ownModel()
            : checkedModel(await self.request(task, MODEL, {}, { timeoutMs: ANSWER_MS }));
        if (model === null) continue;
        this.#model = { from, model };
        break;
      } catch {
        // Another task is asked.
      }
    }
    return this.#model?.model ?? null;
  }

  summaries(): Promise<PageSummaries> {
    if (this.#summaries === undefined || performance.now() - this.#askedAt > CURRENT_MS) {
      this.#askedAt = performance.now();
      this.#summaries = this.#collect();
    }
    return this.#summaries;
  }

  /** Summaries are written by the chief and the evaluator. */
  async #collect(): Promise<PageSummaries> {
    const { server, ownSummaries } = this.#options;
    const { task: self } = server;
    const tasks = this.#tasks((task) => task === self.chief || task.startsWith('/job:evaluator'));
    const parts = await Promise.all(
      tasks.map(async (task) => {
        if (task === self.task) return ownSummaries();
        const answer = await self
          .request(task, SUMMARIES, {}, { timeoutMs: ANSWER_MS })
          .then(checkedSummaries)
          .catch(() => undefined);
        return answer;
      }),
    );
    return {
      histograms: parts.flatMap((part) => part?.histograms ?? []),
      texts: parts.flatMap((part) => part?.texts ?? []),
      version: tasks.map((task, i) => `${task}:${parts[i]?.version ?? ''}`).join(),
    };
  }

  /** The present ones, the chief first. */
  #tasks(isWanted: (task: TaskId) => boolean): readonly TaskId[] {
    const { task: self } = this.#options.server;
    return self
      .members()
      .filter(({ task, status }) => isWanted(task) && isPresent(status))
      .map(({ task }) => task)
      .sort((a, b) => Number(b === self.chief) - Number(a === self.chief));
  }
}
