/**
 * What the evaluations of a job have found and decided: the one place where their results pass. It is kept beside the
 * checkpoints, on the disks of all tasks, so that a decision survives the loss of any of them, and is made once.
 *
 * The task that evaluates sends it to the chief, which alone may change what is beside the checkpoints: before an
 * evaluation, so that the checkpoint is not removed meanwhile, and after it. While the chief is away the evaluator keeps it
 * on its own disk. All workers read it (`job-decisions.ts`), and so does `shoal run`, at the end.
 */
import { describeError, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { Manifest } from '../../../distributed/checkpoint/format/manifest.js';
import { type NotePlace, readNote, writeNote } from '../../../distributed/checkpoint/reading/job-note.js';
import { isPresent } from '../../../distributed/cluster/membership/types.js';
import { DirectoryStore, openFileStore } from '../../../distributed/store/disk/directory-store.js';
import type { Store, StoreCallOptions } from '../../../distributed/store/store.js';
import {
  beginDecisions,
  checkMetrics,
  type Decisions,
  decide,
  type EvaluatedCheckpoint,
  type EvaluationResult,
  resumeDecisions,
} from '../../../training/train/evaluation/decisions.js';
import type { Server } from '../../../training/train/task/server.js';
import type { JobDefinition } from '../definition/define-job.js';
import { decisionRules, rateRule } from '../definition/metric-options.js';
import { blobsIn } from '../directory/task-directory.js';

/** What is kept. */
export interface EvaluationNote {
  readonly decisions: Decisions;
  /** The checkpoint that is being evaluated. */
  readonly evaluating?: EvaluatedCheckpoint | undefined;
}

export interface FoundEvaluations extends EvaluationNote {
  readonly revision: number;
}

/** Where the evaluations of a job are kept: on the disks of its tasks, or of the one process; undefined without checkpoints. */
export function evaluationPlace(
  { name, train }: JobDefinition,
  { server, dir }: { readonly server?: Pick<Server, 'checkpoints'> | undefined; readonly dir: string },
): NotePlace | undefined {
  if (!train.checkpoint) return undefined;
  const { store: url = 'peers:' } = train.checkpoint;
  const isOwn = url === 'peers:';
  const local = () => (isOwn ? new DirectoryStore(blobsIn(dir)) : openFileStore(url));
  const store = server ? server.checkpoints.store(url) : local();
  return { store, namespace: isOwn ? name : '', job: name, note: 'evaluations' };
}

/** The name of the request with which an evaluator sends a note to the chief. */
export const RECORD_REQUEST = 'train-evaluation';

/** Sends notes to the chief. */
export function sendToChief({ task }: Pick<Server, 'task'>): (note: SentNote) => Promise<number> {
  return async (note) => {
    const { chief } = task;
    if (!chief || !isPresent(task.member(chief)?.status ?? 'dead'))
      throw new ShoalError('SHOAL_UNREACHABLE', 'the chief is not there');
    const { timeoutMs } = CALL;
    return (await task.request(chief, RECORD_REQUEST, note, { timeoutMs, again: true })) as number;
  };
}

/** The newest note, if it is newer than this revision. */
export async function readEvaluations(
  place: NotePlace,
  options: StoreCallOptions & {
    readonly after?: number;
    readonly onUnanswered?: (place: string) => void;
  } = {},
): Promise<FoundEvaluations | undefined> {
  const found = await readNote(place, options);
  return found && { revision: found.revision, ...decodeNote(found.value) };
}

const FORMAT = 'shoal-evaluations';

/** JSON has no NaN and no infinity: numbers that it lacks are strings. */
const encode = (note: EvaluationNote): unknown =>
  JSON.parse(
    JSON.stringify({ format: FORMAT, version: 1, ...note }, (_, value: unknown) =>
      typeof value === 'number' && !Number.isFinite(value) ? String(value) : value,
    ),
  );
const NUMBERS: ReadonlySet<unknown> = new Set(['NaN', 'Infinity', '-Infinity']);
export const decodeNote = (value: unknown): EvaluationNote =>
  JSON.parse(JSON.stringify(value), (_, one: unknown) =>
    NUMBERS.has(one) ? Number(one) : one,
  ) as EvaluationNote;

export interface EvaluationLogOptions {
  /** Default: none, in memory only. */
  readonly place?: NotePlace | undefined;
  /** On a cluster: sends a note to the chief, and returns its revision. Default: it is written to `place`. */
  readonly send?: ((note: SentNote) => Promise<number>) | undefined;
  /** Where a note is kept that the chief does not take. Default: nowhere. */
  readonly own?: Store | undefined;
  readonly log: Log;
}

/** What an evaluator sends: the note, and the newest revision that it knows. */
export interface SentNote {
  readonly revision: number;
  readonly note: unknown;
}

const CALL = { timeoutMs: 10_000 };
/** How often a note is sent again that the chief has not taken. */
const SEND_AGAIN_MS = 2000;
/** How often the first read is tried while tasks that may have the note do not answer. */
const FIRST_READS = 20;
const AGAIN_MS = 500;

export class EvaluationLog implements Disposable {
  readonly #job: JobDefinition;
  readonly #options: EvaluationLogOptions;
  #revision = 0;
  #decisions: Decisions;
  #isKnown = false;
  #unsent: NodeJS.Timeout | undefined;
  #note: EvaluationNote | undefined;
  /** The note that this task keeps because the chief has not taken it. */
  #kept: EvaluationNote | undefined;
  readonly #warned = new Set<string>();

  constructor(job: JobDefinition, options: EvaluationLogOptions) {
    this.#job = job;
    this.#options = options;
    this.#decisions = beginDecisions(job.train.lastStep);
  }

  get decisions(): Decisions {
    return this.#decisions;
  }

  /** Throws if the job watches a metric that its evaluation does not have. */
  check(metrics: readonly string[]): void {
    checkMetrics(decisionRules(this.#job), metrics);
  }

  /** An evaluation begins: its checkpoint is not removed before the next one. */
  async begin(checkpoint: EvaluatedCheckpoint): Promise<void> {
    await this.#refresh();
    await this.#write(checkpoint);
  }

  /** The results of an evaluation, and what follows from them. */
  async add(result: EvaluationResult): Promise<Decisions> {
    await this.#refresh();
    const before = this.#decisions;
    const after = decide(before, decisionRules(this.#job), result);
    this.#decisions = after;
    if (after === before) return after;
    this.#describe(before, after, result);
    await this.#write(result.checkpoint);
    return after;
  }

  /** What an earlier process, or one that has run meanwhile, has written. */
  async #refresh(): Promise<void> {
    const { place, log } = this.#options;
    const { lastStep } = this.#job.train;
    if (!place) return;
    for (let attempt = 1; ; attempt++) {
      let lacksAnswers = false;
      const onUnanswered = () => {
        lacksAnswers = true;
      };
      const found = await readEvaluations(place, { ...CALL, after: this.#revision, onUnanswered }).catch(
        (error: unknown) => {
          if (!isShoalError(error)) throw error;
          lacksAnswers = true;
          log(`earlier evaluations could not be looked up: ${describeError(error)}`, 'warn');
          return undefined;
        },
      );
      if (found) {
        this.#revision = found.revision;
        this.#decisions = resumeDecisions(found.decisions, lastStep);
        if (!this.#isKnown) this.#describeFound();
      }
      if (this.#isKnown || found || !lacksAnswers || attempt === FIRST_READS) break;
      await new Promise((wait) => setTimeout(wait, AGAIN_MS));
    }
    this.#isKnown = true;
  }

  #describeFound(): void {
    const { last, best, stoppedAt } = this.#decisions;
    if (!last) return;
    const { stop } = decisionRules(this.#job);
    const of =
      best && stop ? `; the best ${stop.metric} is ${best.results[stop.metric]}, of step ${best.step}` : '';
    const end = stoppedAt === undefined ? '' : `; the evaluation of step ${stoppedAt} has ended training`;
    this.#options.log(`earlier evaluations are known up to step ${last.step}${of}${end}`);
  }

  async #write(evaluating: EvaluatedCheckpoint | undefined): Promise<void> {
    if (!this.#options.place) return;
    this.#note = { decisions: this.#decisions, evaluating };
    await this.#sendOrKeep();
  }

  /** A note that the chief does not take is kept here, and sent again. */
  async #sendOrKeep(): Promise<void> {
    const { place, own, log } = this.#options;
    const note = this.#note as EvaluationNote;
    try {
      await this.#send();
      clearInterval(this.#unsent);
      this.#unsent = undefined;
    } catch (error) {
      if (!isShoalError(error)) throw error;
      if (!this.#unsent) {
        log(`evaluations are kept by this task until a chief records them: ${describeError(error)}`);
        this.#unsent = setInterval(() => {
          this.#sendOrKeep().catch((failure: unknown) => log(describeError(failure), 'warn'));
        }, SEND_AGAIN_MS);
        this.#unsent.unref();
      }
      if (!place || !own || note === this.#kept) return;
      this.#kept = note;
      await writeNote({ ...place, store: own }, { revision: ++this.#revision, value: encode(note) }, CALL);
    }
  }

  async #send(): Promise<void> {
    const { place, send } = this.#options;
    if (!place || !this.#note) return;
    const note = encode(this.#note);
    if (send) {
      this.#revision = Math.max(this.#revision, await send({ revision: this.#revision, note }));
      return;
    }
    await writeNote(place, { revision: this.#revision + 1, value: note }, CALL);
    this.#revision += 1;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#unsent);
  }

  #describe(before: Decisions, after: Decisions, { step, results }: EvaluationResult): void {
    const { log } = this.#options;
    const { stop, reduce } = decisionRules(this.#job);
    for (const { metric } of new Set([stop, reduce].filter((rule) => rule !== undefined))) {
      if (!Number.isNaN(results[metric]) || this.#warned.has(metric)) continue;
      this.#warned.add(metric);
      log(`the metric '${metric}' of step ${step} is NaN: that counts as no improvement`, 'warn');
    }
    if (stop && after.stoppedAt !== undefined && before.stoppedAt === undefined) {
      const { best } = after;
      const than = best ? `on ${best.results[stop.metric]}, of step ${best.step},` : 'of NaN';
      const value = best?.results[stop.metric];
      log(
        `eval/${stop.metric}: no improvement ${than} in ${stop.patience} evaluations: training stops`,
        'info',
        {
          event: 'earlyStop',
          reason: 'noImprovement',
          step,
          metric: `eval/${stop.metric}`,
          best: best && value !== undefined ? { value, step: best.step } : undefined,
        },
      );
    }
    if (reduce && after.reduce.plateaus > before.reduce.plateaus) {
      const { factor, min } = rateRule(this.#job) ?? {};
      log(
        `eval/${reduce.metric}: no improvement on ${after.reduce.best} in ${reduce.patience} evaluations: the learning rate is to be multiplied by ${factor}${min ? `, but not to be below ${min}` : ''}`,
      );
    }
  }
}

/** What names a checkpoint among the evaluations. */
export const refOf = ({ sequence, attempt }: Manifest): EvaluatedCheckpoint => ({ sequence, attempt });
