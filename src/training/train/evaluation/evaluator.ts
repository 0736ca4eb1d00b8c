/**
 * Evaluates the checkpoints of other tasks: polls for the newest checkpoint, restores it into its own session, and
 * writes the metrics as summaries. It ends at the last step, by its signal, or after a time without a new checkpoint.
 */

import { sleep } from '../../../base/async/deadline.js';
import { describeError, isShoalError, ShoalError } from '../../../base/errors/errors.js';
import { defaultLog, type Log } from '../../../base/text/log.js';
import type { FileWriter } from '../../../tensorflow/summary/file-writer.js';
import { globalStepOf } from '../../../tensorflow/variables/global-step.js';
import { localVariablesInitializer, tablesInitializer } from '../../../tensorflow/variables/initialize.js';
import { SummaryWriters } from '../hooks/summary-writers.js';
import { Feeders } from '../leases/feeders.js';
import type { SaverLike, TrainingRunner } from '../task/training-runner.js';
import { BestCheckpoints, type BestPolicy } from './best-checkpoints.js';
import { describeResults, type Evaluation, evaluate, type Results } from './evaluate.js';

export interface EvaluatorOptions {
  /** The session to restore into. It must not be used for training. */
  readonly session: TrainingRunner;
  readonly saver: SaverLike;
  readonly checkpointDir: string;
  readonly evaluation: Evaluation;
  /** The directory of the event file; default: none, no file is written. */
  readonly outputDir?: string;
  /** Seconds between polls for a checkpoint. Default: 10. */
  readonly pollSecs?: number;
  /** Ends after this many seconds without a new checkpoint. Default: 3600. */
  readonly timeoutSecs?: number;
  /** Ends after a checkpoint of this step or a later one. Default: none. */
  readonly lastStep?: number;
  /** Ends after this many evaluations; default: unlimited. */
  readonly maxEvaluations?: number;
  /** Whether training is over: then the newest checkpoint is evaluated, and the evaluator ends. Default: false. */
  readonly isOver?: () => boolean;
  /** Copies the best checkpoints to a directory: the training process removes the originals. Default: none. */
  readonly best?: { readonly policy: BestPolicy; readonly saver: SaverLike; readonly directory: string };
  /** Called while the session holds the checkpoint, and awaited before the next one is restored. Default: none. */
  readonly onResults?: (results: Results, step: number) => void | Promise<void>;
  /** Ends the evaluator; default: none. */
  readonly signal?: AbortSignal;
  /** Receives log lines; default: `console.error`, of lines of at least the level SHOAL_LOG_LEVEL. */
  readonly log?: Log;
}

export interface EvaluatorOutcome {
  readonly evaluations: number;
  readonly results: Results | undefined;
  readonly step: number | undefined;
}

/** Evaluates checkpoints, one after the other. */
export async function evaluateRepeatedly(options: EvaluatorOptions): Promise<EvaluatorOutcome> {
  const { signal, pollSecs = 10, timeoutSecs = 3600, maxEvaluations = Number.POSITIVE_INFINITY } = options;
  const { lastStep = Number.POSITIVE_INFINITY, log = defaultLog() } = options;
  await using writers = new SummaryWriters();
  const best = options.best && new BestCheckpoints({ ...options.best, copy: true, log });
  let outcome: EvaluatorOutcome = { evaluations: 0, results: undefined, step: undefined };
  let seen: string | undefined;
  let lastSuccess = performance.now();
  let failedAttempts = 0;
  while (!signal?.aborted && outcome.evaluations < maxEvaluations) {
    // Checked first: a checkpoint that appears meanwhile is found below.
    const isOver = options.isOver?.() ?? false;
    const path = await newest(options, log);
    if (path !== undefined && path !== seen) {
      const found = await tryCheckpoint(path, options, log);
      if (signal?.aborted) break;
      if (found) {
        seen = path;
        failedAttempts = 0;
        lastSuccess = performance.now();
        outcome = { evaluations: outcome.evaluations + 1, ...found };
        await publish(found, options, writers, best, log);
        if (found.step >= lastStep) break;
        continue;
      }
    }
    if (isOver && path === seen) break;
    // After the end of training nothing repairs a checkpoint that cannot be read.
    if (isOver && ++failedAttempts >= LAST_ATTEMPTS) throw lastCheckpointUnreadable(path);
    if (performance.now() - lastSuccess > timeoutSecs * 1000) {
      log(`no new checkpoint for ${timeoutSecs} s: stopping the evaluation`);
      break;
    }
    await sleep(pollSecs * 1000, signal).catch(() => {
      // The loop checks the signal.
    });
  }
  return outcome;
}

/** Attempts to read the last checkpoint. */
const LAST_ATTEMPTS = 5;

const lastCheckpointUnreadable = (path: string | undefined) =>
  new ShoalError('SHOAL_NOT_FOUND', `The last checkpoint${path ? `, ${path},` : ''} could not be evaluated`, {
    hint: 'The log lines above name the cause. Check that the tasks that hold its files are running.',
  });

interface Found {
  readonly step: number;
  readonly results: Results;
  readonly path: string;
}

async function newest(
  { saver, session, checkpointDir, signal }: EvaluatorOptions,
  log: Log,
): Promise<string | undefined> {
  try {
    return await saver.latest(session, checkpointDir, signal ? { signal } : {});
  } catch (error) {
    if (!signal?.aborted) log(`the newest checkpoint could not be looked up: ${describeError(error)}`);
    return undefined;
  }
}

/** A checkpoint may be removed while it is read: that is not an error, because a newer one exists. */
async function tryCheckpoint(
  path: string,
  { saver, session, evaluation, signal }: EvaluatorOptions,
  log: Log,
): Promise<Found | undefined> {
  const within = signal ? { signal } : {};
  try {
    await saver.restore(session, path, within);
  } catch (error) {
    if (!signal?.aborted) log(`${path} could not be restored: ${describeError(error)}`);
    return undefined;
  }
  try {
    return { ...(await evaluateState(session, evaluation, { ...within, log })), path };
  } catch (error) {
    if (signal?.aborted && isShoalError(error)) return undefined;
    throw error;
  }
}

/** Evaluates the values that the session has, with the input from its beginning. */
export async function evaluateState(
  session: TrainingRunner,
  evaluation: Evaluation,
  { signal, log }: { readonly signal?: AbortSignal; readonly log: Log },
): Promise<{ readonly step: number; readonly results: Results }> {
  const globalStep = globalStepOf(session);
  if (!globalStep) throw new ShoalError('SHOAL_INVALID_ARGUMENT', 'An evaluator needs a global step');
  const within = signal ? { signal } : {};
  await session.run(
    session.graph.asDefault(() => initOpsOf(session)),
    within,
  );
  const step = (await session.run(globalStep)).number();
  const begun = performance.now();
  const reminder = setInterval(() => {
    const minutes = Math.round((performance.now() - begun) / 60_000);
    log(
      `the evaluation of step ${step} has taken ${minutes} min; \`batches\` ends it if its input has no end`,
    );
  }, 60_000);
  try {
    return { step, results: await whileFed(session, log, () => evaluate(session, evaluation, within)) };
  } finally {
    clearInterval(reminder);
  }
}

/** Runs `work` while JavaScript sources feed the input from its beginning. */
async function whileFed<T>(session: TrainingRunner, log: Log, work: () => Promise<T>): Promise<T> {
  const failures: unknown[] = [];
  const feeders = Feeders.of(session, { log, onError: (error) => void failures.push(error) });
  await feeders?.begin();
  const [done] = await Promise.allSettled([work()]);
  await feeders?.stop({ isPause: true });
  // Metrics of an incomplete input are invalid, and the error of the source is the cause of later ones.
  if (failures.length > 0) throw failures[0];
  if (done.status === 'rejected') throw done.reason;
  return done.value;
}

const initOps = new WeakMap<object, ReturnType<typeof makeInitOps>>();

/** Creates the ops once per graph. */
function initOpsOf({ graph }: TrainingRunner) {
  const known = initOps.get(graph);
  if (known) return known;
  const made = makeInitOps(graph);
  initOps.set(graph, made);
  return made;
}

const makeInitOps = (graph: TrainingRunner['graph']) => [
  localVariablesInitializer(graph),
  tablesInitializer(graph),
];

/** Writes the results to the event file. */
export async function writeResults(writer: FileWriter, results: Results, step: number): Promise<void> {
  for (const [name, value] of Object.entries(results)) writer.addScalar(name, value, step);
  await writer.flush();
}

async function publish(
  { step, results, path }: Found,
  { outputDir, onResults, session }: EvaluatorOptions,
  writers: SummaryWriters,
  best: BestCheckpoints | undefined,
  log: Log,
): Promise<void> {
  if (outputDir !== undefined) await writeResults(writers.get(outputDir), results, step);
  log(`evaluation of ${path}: ${describeResults(results)}`, 'info', {
    event: 'evaluation',
    step,
    metrics: results,
  });
  await onResults?.(results, step);
  await best?.consider(session, { step, results, path: async () => path });
}
