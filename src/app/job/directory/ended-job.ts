/**
 * A task that is started when its job has ended: the other tasks are gone, and it would wait for them. The record of the
 * end beside the checkpoints says so, on its own disk, on those of tasks that are there, or in the store that all share.
 *
 * | task | ends when |
 * |---|---|
 * | worker | another task or the shared store has the record, and the chief is not there: otherwise its step decides, when
 *            the variables have values; or its own disk has the record, or the last step, and it is alone |
 * | chief | any has the record, and for a while not all ps are there: with them it does what remains, such as an export |
 * | ps | its own disk has the record, and for minutes no worker is there and nobody has read or written blobs: it may
 *        have been started to serve a copy of the checkpoints |
 */

import { isShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import { surveyCheckpoints } from '../../../distributed/checkpoint/reading/catalog.js';
import { type EndedJob, type FoundEnd, findEnd } from '../../../distributed/checkpoint/reading/end-record.js';
import { isPresent } from '../../../distributed/cluster/membership/types.js';
import { parseTaskId } from '../../../distributed/cluster/spec/task-id.js';
import type { ClusterTask } from '../../../distributed/cluster/task/cluster-task.js';
import { placeOf } from '../../../distributed/cluster/task/peers.js';
import { DirectoryStore, openFileStore } from '../../../distributed/store/disk/directory-store.js';
import type { Store } from '../../../distributed/store/store.js';
import type { Server } from '../../../training/train/task/server.js';
import type { JobDefinition } from '../definition/define-job.js';
import { blobsIn } from './task-directory.js';

/** How long no other task may be there. Tasks that are started together find each other sooner. */
const ALONE_MS = 10_000;
/** The same for a chief, which others may need if the job is started again. */
const NEEDED_MS = 30_000;
/** The same for a ps, which a user may have started to copy checkpoints. */
const SERVING_MS = 5 * 60_000;
const LOOK_MS = 250;
/** How often, and for how long, the other tasks are asked for the record. */
const ASK_EVERY_MS = 2000;
const ASK_MS = 3000;

export interface EndedJobOptions {
  readonly server: Pick<Server, 'task' | 'isComplete'> & {
    readonly checkpoints: Pick<Server['checkpoints'], 'store'>;
  };
  /** The task's own directory. */
  readonly dir: string;
  readonly log: Log;
  /** Monotonic milliseconds; default: `performance.now`. */
  readonly now?: () => number;
}

export class EndedJobWatch implements Disposable {
  readonly #job: JobDefinition;
  readonly #options: EndedJobOptions;
  readonly #ended = new AbortController();
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;
  #isAsking = false;
  #askedAt = Number.NEGATIVE_INFINITY;
  /** What this task's own disk says. */
  #own: string | undefined;
  /** What the record at another place says. */
  #others: string | undefined;
  #lonelySince: number | undefined;
  #noChiefSince: number | undefined;
  /** Whether it is logged that this ps only serves its checkpoints. */
  #isServing = false;

  private constructor(job: JobDefinition, options: EndedJobOptions) {
    this.#job = job;
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Watches until it is disposed of, if the job may have ended. */
  static async begin(job: JobDefinition, options: EndedJobOptions): Promise<EndedJobWatch> {
    const watch = new EndedJobWatch(job, options);
    if (!job.train.checkpoint) return watch;
    watch.#own = await ownEnd(job, options);
    watch.#timer = setInterval(() => watch.#look(), LOOK_MS);
    return watch;
  }

  /** Aborted when the job has ended. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  #look(): void {
    const { task, isChief } = this.#options.server.task;
    const isPs = parseTaskId(task).job === 'ps';
    if (!isPs) this.#ask();
    if (!isPs && !isChief && this.#others && this.#isChiefAbsent()) {
      this.#end(this.#others);
      return;
    }
    const known = isChief ? (this.#own ?? this.#others) : this.#own;
    if (known === undefined || !this.#isLonely(isPs)) {
      this.#lonelySince = undefined;
      return;
    }
    this.#lonelySince ??= this.#now();
    if (isPs) {
      this.#lookAsPs(known, this.#lonelySince);
      return;
    }
    if (this.#now() - this.#lonelySince < (isChief ? NEEDED_MS : ALONE_MS)) return;
    this.#end(`${known}, and ${isChief ? 'not every ps' : 'no other task'} is there`);
  }

  /** Whether the chief has not been there for so long that it does not start together with this task. */
  #isChiefAbsent(): boolean {
    const { task } = this.#options.server;
    if (task.chief && isPresent(task.member(task.chief)?.status ?? 'dead')) this.#noChiefSince = undefined;
    else this.#noChiefSince ??= this.#now();
    return this.#noChiefSince !== undefined && this.#now() - this.#noChiefSince >= ALONE_MS;
  }

  #lookAsPs(known: string, lonelySince: number): void {
    const now = this.#now();
    if (!this.#isServing && now - lonelySince >= ALONE_MS) {
      this.#isServing = true;
      this.#options.log(
        `the job has ended: ${known}; this ps serves its checkpoints, and ends after ${SERVING_MS / 60_000} min without a worker and without requests for them`,
      );
    }
    const idleSince = Math.max(lonelySince, this.#options.server.task.transferredAt);
    if (now - idleSince >= SERVING_MS) this.#end(`${known}, and neither a worker nor a request has come`);
  }

  #isLonely(isPs: boolean): boolean {
    const { server } = this.#options;
    if (isPs) {
      const others = server.task.members().filter(({ task }) => parseTaskId(task).job !== 'ps');
      return !others.some(({ status }) => isPresent(status));
    }
    return server.task.isChief ? !server.isComplete({ workers: false }) : isAlone(server.task);
  }

  #ask(): void {
    const { server } = this.#options;
    const isDue = this.#now() - this.#askedAt >= ASK_EVERY_MS;
    if (this.#others !== undefined || this.#isAsking || !isDue) return;
    this.#isAsking = true;
    this.#askedAt = this.#now();
    void findEndOfJob(this.#job, server)
      .then((end) => {
        const own = placeOf(server.task.task);
        const place = end?.places.find((other) => other !== own);
        if (end && place) this.#others = `its end, at step ${end.step}, is recorded at ${place}`;
      })
      .finally(() => {
        this.#isAsking = false;
      });
  }

  #end(why: string): void {
    this[Symbol.dispose]();
    this.#options.log(`the job has ended: ${why}`);
    this.#ended.abort('the job has ended');
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

/** Whether no other task is there. */
export const isAlone = (task: Pick<ClusterTask, 'task' | 'members'>): boolean =>
  !task.members().some((member) => member.task !== task.task && isPresent(member.status));

/** The record of the end that this task can reach now, on the disks of the others too. */
export async function findEndOfJob(
  job: JobDefinition,
  { checkpoints }: Pick<EndedJobOptions['server'], 'checkpoints'>,
): Promise<FoundEnd | undefined> {
  const store = checkpoints.store(job.train.checkpoint?.store);
  const isSpread = store.kind === 'peers';
  try {
    return await findEnd(store, endedJob(job, isSpread), { timeoutMs: ASK_MS });
  } catch (error) {
    // Tasks that start, or end, do not answer.
    if (isShoalError(error)) return undefined;
    throw error;
  }
}

const endedJob = ({ name, train }: JobDefinition, isSpread: boolean): EndedJob => ({
  namespace: isSpread ? name : '',
  job: name,
  lastStep: train.lastStep,
});

/** How this task knows, without others, that the job has ended. */
async function ownEnd(job: JobDefinition, { dir }: EndedJobOptions): Promise<string | undefined> {
  const { store: url = 'peers:' } = job.train.checkpoint ?? {};
  const isOwn = url === 'peers:';
  const store = isOwn ? new DirectoryStore(blobsIn(dir)) : openFileStore(url);
  try {
    const end = await findEnd(store, endedJob(job, isOwn));
    if (end) return `its end, at step ${end.step}, is recorded on this disk`;
    const step = await newestStep(job, store, isOwn ? job.name : '');
    if (step === undefined || step < job.train.lastStep) return undefined;
    return `its last step, ${step}, is saved on this disk`;
  } finally {
    await store.close();
  }
}

/** The step of the newest checkpoint of the job in this store. */
async function newestStep({ name }: JobDefinition, store: Store, namespace: string) {
  const { manifests } = await surveyCheckpoints(store, namespace);
  const steps = manifests.filter(({ job: owner = name }) => owner === name).map(({ step }) => step);
  return steps.length === 0 ? undefined : Math.max(...steps);
}
