/**
 * A worker that is started when its job has ended. The other tasks are gone, and it would wait for them. If a checkpoint
 * on its own disk has the last step of the job, and no other task is there, nothing is left to do.
 *
 * The chief always waits: if the job is started again, the ps need it, and it may be the first.
 */
import { surveyCheckpoints } from '../checkpoint/catalog.js';
import { isPresent } from '../cluster/membership/types.js';
import type { ClusterTask } from '../cluster/task/cluster-task.js';
import { DirectoryStore, openFileStore } from '../store/disk/directory-store.js';
import type { JobDefinition } from './define-job.js';
import { blobsIn } from './task-directory.js';

/** How long no other task may be there. Tasks that are started together find each other sooner. */
const ALONE_MS = 10_000;
const LOOK_MS = 250;

export interface EndedJobOptions {
  readonly task: Pick<ClusterTask, 'task' | 'isChief' | 'members'>;
  /** The task's own directory. */
  readonly dir: string;
  readonly log: (line: string) => void;
  /** Monotonic milliseconds; default: `performance.now`. */
  readonly now?: () => number;
}

export class EndedJobWatch implements Disposable {
  readonly #options: EndedJobOptions;
  readonly #ended = new AbortController();
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;
  #aloneSince: number | undefined;

  private constructor(options: EndedJobOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Watches until it is disposed of, if the job may have ended. */
  static async begin(job: JobDefinition, options: EndedJobOptions): Promise<EndedJobWatch> {
    const watch = new EndedJobWatch(options);
    if (options.task.isChief) return watch;
    const step = await newestStep(job, options.dir);
    if (step !== undefined && step >= job.train.lastStep)
      watch.#timer = setInterval(() => watch.#look(step), LOOK_MS);
    return watch;
  }

  /** Aborted when the job has ended. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  #look(step: number): void {
    const { task, log } = this.#options;
    if (!isAlone(task)) {
      this.#aloneSince = undefined;
      return;
    }
    this.#aloneSince ??= this.#now();
    if (this.#now() - this.#aloneSince < ALONE_MS) return;
    this[Symbol.dispose]();
    log(`the job has ended: its last step, ${step}, is saved on this disk, and no other task is there`);
    this.#ended.abort('the job has ended');
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

/** Whether no other task is there. */
export const isAlone = (task: Pick<ClusterTask, 'task' | 'members'>): boolean =>
  !task.members().some((member) => member.task !== task.task && isPresent(member.status));

/** The step of the newest checkpoint of the job that this task can read without others. */
async function newestStep(job: JobDefinition, dir: string): Promise<number | undefined> {
  const { checkpoint } = job.train;
  if (!checkpoint) return undefined;
  const { store: url = 'peers:' } = checkpoint;
  const isOwn = url === 'peers:';
  const store = isOwn ? new DirectoryStore(blobsIn(dir)) : openFileStore(url);
  try {
    const { manifests } = await surveyCheckpoints(store, isOwn ? job.name : '');
    const steps = manifests.filter(({ job: owner = job.name }) => owner === job.name).map(({ step }) => step);
    return steps.length === 0 ? undefined : Math.max(...steps);
  } finally {
    await store.close();
  }
}
