/**
 * The whole cluster as one task sees it: it asks the others for their reports, with a deadline, while somebody looks. What
 * a task has reported is kept when it does not answer any more, with its age.
 */
import { isPresent } from '../../../distributed/cluster/membership/types.js';
import { compareTasks, isTaskId, type TaskId, trains } from '../../../distributed/cluster/spec/task-id.js';
import { placeOf } from '../../../distributed/cluster/task/peers.js';
import type { Server } from '../../../training/train/task/server.js';
import type {
  LogPart,
  PageEvent,
  PageExport,
  PageModel,
  PageState,
  PageSummaries,
  TaskReport,
  TaskState,
} from '../state.js';
import { CheckpointList, type DiskState, type ReadManifestOf } from './checkpoints.js';
import type { PageSource } from './page-source.js';
import { TaskMemory } from './task-memory.js';
import { TaskParts } from './task-parts.js';
import { checkedLog, checkedReport } from './wire.js';

export const REPORT = 'page-report';
export const LOG = 'page-log';

const EVERY_MS = 1000;
/** Asking a task takes about a millisecond of this one. */
const EACH_TASK_MS = 10;
const ANSWER_MS = 900;
const LOG_MS = 3000;
const CURRENT_MS = 5000;
const POKE_MS = 200;
const MOST_EVENTS = 500;
const MOST_EXPORTS = 30;
const MOST_UPDATES = 10;
/** Tasks whose curves are shown. */
const MOST_CURVES = 8;
/** Points of all curves in a complete state, which a page loads first. */
const MOST_POINTS = 12_000;
const FEWEST_POINTS = 100;

export interface ClusterViewOptions {
  readonly server: Server;
  readonly own: (since: number) => Promise<TaskReport>;
  readonly ownLog: (after: number) => LogPart;
  readonly ownModel: () => Promise<PageModel | null>;
  readonly ownSummaries: () => PageSummaries;
  readonly namespace: string;
  readonly readManifest: ReadManifestOf;
  readonly lastStep: number | null;
}

export class ClusterView implements PageSource, Disposable {
  readonly #options: ClusterViewOptions;
  readonly #memory = new Map<string, TaskMemory>();
  readonly #checkpoints: CheckpointList;
  readonly #parts: TaskParts;
  readonly #listeners = new Set<(update: PageState) => void>();
  readonly #updates: PageState[] = [];
  /** The events of the last update. */
  #sent: ReadonlySet<string> = new Set();
  #cursor = 0;
  #full: PageState | undefined;
  #collecting: Promise<void> | undefined;
  #collectedAt = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;
  readonly #stop: () => void;

  constructor(options: ClusterViewOptions) {
    this.#options = options;
    this.#checkpoints = new CheckpointList(options.namespace, options.readManifest);
    this.#parts = new TaskParts(options);
    this.#stop = options.server.task.events.on('*', () => this.#poke());
  }

  async state(): Promise<PageState> {
    if (performance.now() - this.#collectedAt > this.#everyMs || !this.#full) await this.#collect();
    return this.#full!;
  }

  watch(listener: (update: PageState) => void): () => void {
    this.#listeners.add(listener);
    this.#schedule(this.#everyMs);
    return () => {
      this.#listeners.delete(listener);
      if (this.#listeners.size > 0) return;
      clearTimeout(this.#timer);
      this.#timer = undefined;
    };
  }

  updatesAfter(cursor: number): readonly PageState[] | undefined {
    if (cursor === this.#cursor) return [];
    const [oldest] = this.#updates;
    if (oldest === undefined || cursor > this.#cursor || cursor < oldest.cursor - 1) return undefined;
    return this.#updates.filter((update) => update.cursor > cursor);
  }

  async log(task: string, after: number): Promise<LogPart> {
    const { server, ownLog } = this.#options;
    if (task === server.task.task) return ownLog(after);
    if (!isTaskId(task)) return { lines: [], dropped: false };
    return checkedLog(await server.task.request(task, LOG, { after }, { timeoutMs: LOG_MS }));
  }

  model(): Promise<PageModel | null> {
    return this.#parts.model();
  }

  summaries(): Promise<PageSummaries> {
    return this.#parts.summaries();
  }

  get #everyMs(): number {
    return Math.max(EVERY_MS, this.#options.server.task.members().length * EACH_TASK_MS);
  }

  #schedule(ms: number): void {
    if (this.#timer !== undefined || this.#isClosed || this.#listeners.size === 0) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.#collect().finally(() => this.#schedule(this.#everyMs));
    }, ms).unref();
  }

  /** Something has happened in the cluster: it is shown at once. */
  #poke(): void {
    if (this.#listeners.size === 0 || this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#schedule(POKE_MS);
  }

  #collect(): Promise<void> {
    this.#collecting ??= this.#collectNow().finally(() => {
      this.#collecting = undefined;
    });
    return this.#collecting;
  }

  async #collectNow(): Promise<void> {
    const { server, own } = this.#options;
    const { task: self } = server;
    await Promise.all(
      self.members().map(async ({ task, status, incarnation }) => {
        const memory = this.#memory.get(task) ?? new TaskMemory();
        this.#memory.set(task, memory);
        memory.missed();
        const since = memory.since(incarnation);
        try {
          if (task === self.task) memory.add(await own(since));
          else if (isPresent(status))
            memory.add(checkedReport(await self.request(task, REPORT, { since }, { timeoutMs: ANSWER_MS })));
        } catch {
          // Its last report stays, and its age shows that it does not answer.
        }
      }),
    );
    for (const task of this.#memory.keys())
      if (self.member(task as TaskId) === undefined) this.#memory.delete(task);
    const checkpoints = await this.#checkpoints.state(this.#disks());
    this.#cursor += 1;
    this.#collectedAt = performance.now();
    const events = this.#events();
    const common = { ...this.#head(), checkpoints };
    this.#full = { ...common, tasks: this.#tasks(true), events };
    const fresh = events.filter(({ id }) => !this.#sent.has(id));
    this.#sent = new Set(events.map(({ id }) => id));
    const update = { ...common, tasks: this.#tasks(false), events: fresh };
    this.#updates.push(update);
    if (this.#updates.length > MOST_UPDATES) this.#updates.shift();
    for (const listener of this.#listeners) listener(update);
  }

  #head(): Omit<PageState, 'tasks' | 'events' | 'checkpoints'> {
    const { server, lastStep } = this.#options;
    const { cluster, epoch, chief } = server.task.status();
    const { task } = server.task;
    return {
      cluster,
      epoch,
      chief,
      self: task,
      cursor: this.#cursor,
      now: Date.now(),
      live: true,
      lastStep,
      everyMs: this.#everyMs,
      runs: [],
      configuration: this.#memory.get(task)?.report?.configuration ?? [],
      exports: this.#exports(),
      input: (chief === null ? null : this.#memory.get(chief)?.report?.input) ?? null,
    };
  }

  #tasks(all: boolean): readonly TaskState[] {
    const { task: self } = this.#options.server;
    const { members, chief } = self.status();
    const withCurves = new Set(
      members
        .map(({ task }) => task)
        .filter((task) => trains(task) || task.startsWith('/job:evaluator'))
        .sort((a, b) => Number(b === chief) - Number(a === chief))
        .slice(0, MOST_CURVES),
    );
    let count = 1;
    for (const task of withCurves) count += this.#memory.get(task)?.curveCount ?? 0;
    const most = Math.max(FEWEST_POINTS, Math.floor(MOST_POINTS / count));
    return [...members]
      .sort((a, b) => compareTasks(a.task, b.task))
      .map((member) => {
        const memory = this.#memory.get(member.task);
        const report = memory?.numbers() ?? null;
        const { task, incarnation, first, agentAddress, host, pid, step, status, silentMs, busyMs } = member;
        return {
          ...{ task, incarnation, first, agentAddress, host, pid, step, status, busyMs },
          silentMs: Math.round(silentMs),
          report,
          reportAgeMs: report && memory ? Math.round(performance.now() - memory.heardAt) : null,
          curves: !memory || !withCurves.has(task) ? [] : all ? memory.curves(most) : memory.fresh,
        };
      });
  }

  #disks(): readonly DiskState[] {
    return this.#options.server.task.members().flatMap(({ task, status }) => {
      const memory = this.#memory.get(task);
      const { report } = memory ?? {};
      const isCurrent = memory !== undefined && performance.now() - memory.heardAt < CURRENT_MS;
      const hasLeft = status === 'left';
      return report && !hasLeft
        ? [{ place: placeOf(task), files: report.files, isCurrent: isCurrent && isPresent(status) }]
        : [];
    });
  }

  /** If tasks share a disk, all of them list the same: the chief, which exports, knows most. */
  #exports(): readonly PageExport[] {
    const { chief } = this.#options.server.task;
    const byPath = new Map<string, PageExport>();
    for (const [task, { report }] of this.#memory)
      for (const one of report?.exports ?? [])
        if (task === chief || !byPath.has(one.path)) byPath.set(one.path, one);
    return [...byPath.values()].sort((x, y) => y.at - x.at).slice(0, MOST_EXPORTS);
  }

  /** Several tasks see the loss of one: the first to see it counts. */
  #events(): readonly PageEvent[] {
    const all = new Map<string, PageEvent>();
    for (const memory of this.#memory.values()) {
      for (const event of memory.events()) {
        const known = all.get(event.id);
        if (known === undefined || event.at < known.at) all.set(event.id, event);
      }
    }
    return [...all.values()].sort((a, b) => a.at - b.at).slice(-MOST_EVENTS);
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#stop();
  }
}
