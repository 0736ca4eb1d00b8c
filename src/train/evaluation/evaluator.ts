/**
 * A process that evaluates what others train: it watches for the newest checkpoint, restores it into a session of its
 * own, and writes the metrics as summaries. It ends at the last step, by its signal, or when no checkpoint has come
 * for a while.
 */
import { sleep } from '../../async/deadline.js';
import { isShoalError, messageOf, ShoalError } from '../../errors/errors.js';
import { getGlobalStep } from '../../variables/global-step.js';
import { localVariablesInitializer, tablesInitializer } from '../../variables/initialize.js';
import { SummaryWriters } from '../hooks/summary-writers.js';
import { Feeders } from '../leases/feeders.js';
import type { SaverLike, TrainingRunner } from '../recovery/training-runner.js';
import { BestCheckpoints, type BestPolicy } from './best-checkpoints.js';
import { describeResults, type Evaluation, evaluate, type Results } from './evaluate.js';

export interface EvaluatorOptions {
  /** The session to restore into. Nobody else may train in it. */
  readonly session: TrainingRunner;
  readonly saver: SaverLike;
  readonly checkpointDir: string;
  readonly evaluation: Evaluation;
  readonly outputDir?: string | undefined;
  /** How often to look for a checkpoint. */
  readonly pollSecs?: number;
  /** How long none may come before the evaluator ends. */
  readonly timeoutSecs?: number;
  /** Ends when a checkpoint of this step, or a later one, was evaluated. */
  readonly lastStep?: number;
  readonly maxEvaluations?: number;
  /** Whether no checkpoint can come any more: the newest is evaluated then, and that is the end. */
  readonly isOver?: () => boolean;
  /** Copies the best checkpoint to a directory: the saver of the training process rules over the originals. */
  readonly best?: { readonly policy: BestPolicy; readonly saver: SaverLike; readonly directory: string };
  /** Called while the session holds the checkpoint; the next one waits for it. */
  readonly onResults?: (results: Results, step: number) => void | Promise<void>;
  readonly signal?: AbortSignal;
  readonly log?: (line: string) => void;
}

export interface EvaluatorOutcome {
  readonly evaluations: number;
  readonly results: Results | undefined;
  readonly step: number | undefined;
}

/** Evaluates one checkpoint after the other. */
export async function evaluateRepeatedly(options: EvaluatorOptions): Promise<EvaluatorOutcome> {
  const { signal, pollSecs = 10, timeoutSecs = 3600, maxEvaluations = Number.POSITIVE_INFINITY } = options;
  const { lastStep = Number.POSITIVE_INFINITY, log = (line: string) => console.error(line) } = options;
  await using writers = new SummaryWriters();
  const best = options.best && new BestCheckpoints({ ...options.best, copy: true, log });
  let outcome: EvaluatorOutcome = { evaluations: 0, results: undefined, step: undefined };
  let seen: string | undefined;
  let lastNews = performance.now();
  let vain = 0;
  while (!signal?.aborted && outcome.evaluations < maxEvaluations) {
    // Asked first: a checkpoint that came meanwhile is seen below.
    const isOver = options.isOver?.() ?? false;
    const path = await newest(options, log);
    if (path !== undefined && path !== seen) {
      const found = await tryCheckpoint(path, options, log);
      if (signal?.aborted) break;
      if (found) {
        seen = path;
        vain = 0;
        lastNews = performance.now();
        outcome = { evaluations: outcome.evaluations + 1, ...found };
        await publish(found, options, writers, best, log);
        if (found.step >= lastStep) break;
        continue;
      }
    }
    if (isOver && path === seen) break;
    // What cannot be read when nobody writes any more will not be readable later.
    if (isOver && ++vain >= LAST_TRIES) throw unread(path);
    if (performance.now() - lastNews > timeoutSecs * 1000) {
      log(`no checkpoint has come for ${timeoutSecs} s: the evaluation ends`);
      break;
    }
    await sleep(pollSecs * 1000, signal).catch(() => {
      // The loop looks at the signal.
    });
  }
  return outcome;
}

/** How often the last checkpoint is tried. */
const LAST_TRIES = 5;

const unread = (path: string | undefined) =>
  new ShoalError('SHOAL_NOT_FOUND', `The last checkpoint${path ? `, ${path},` : ''} could not be evaluated`, {
    hint: 'What went wrong stands above. Are the tasks that hold its files still there?',
  });

interface Found {
  readonly step: number;
  readonly results: Results;
  readonly path: string;
}

async function newest(
  { saver, session, checkpointDir, signal }: EvaluatorOptions,
  log: (line: string) => void,
): Promise<string | undefined> {
  try {
    return await saver.latest(session, checkpointDir, signal ? { signal } : {});
  } catch (error) {
    if (!signal?.aborted) log(`the newest checkpoint could not be looked up: ${messageOf(error)}`);
    return undefined;
  }
}

/** A checkpoint may be swept away while it is read: that is no error, a newer one is there then. */
async function tryCheckpoint(
  path: string,
  { saver, session, evaluation, signal }: EvaluatorOptions,
  log: (line: string) => void,
): Promise<Found | undefined> {
  const { graph } = session;
  const within = signal ? { signal } : {};
  try {
    await saver.restore(session, path, within);
  } catch (error) {
    if (!signal?.aborted) log(`${path} could not be restored: ${messageOf(error)}`);
    return undefined;
  }
  const globalStep = getGlobalStep(graph);
  if (!globalStep) throw new ShoalError('SHOAL_INVALID_ARGUMENT', 'An evaluator needs a global step');
  try {
    await session.run(
      graph.asDefault(() => prepared(session)),
      within,
    );
    const step = (await session.run(globalStep)).number();
    const results = await fed(session, log, () => evaluate(session, evaluation, within));
    return { step, results, path };
  } catch (error) {
    if (signal?.aborted && isShoalError(error)) return undefined;
    throw error;
  }
}

/** Evaluates while what JavaScript makes of the input is fed to it, from its beginning. */
async function fed<T>(
  session: TrainingRunner,
  log: (line: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  const failures: unknown[] = [];
  const feeders = Feeders.of(session, { log, onError: (error) => void failures.push(error) });
  await feeders?.begin();
  const [done] = await Promise.allSettled([work()]);
  await feeders?.stop({ isPause: true });
  // Metrics of an input that broke off are no metrics, and an error that follows from it says less.
  if (failures.length > 0) throw failures[0];
  if (done.status === 'rejected') throw done.reason;
  return done.value;
}

const preparations = new WeakMap<object, ReturnType<typeof makePreparation>>();

/** Ops are made once for a graph, however often they are run. */
function prepared({ graph }: TrainingRunner) {
  const known = preparations.get(graph);
  if (known) return known;
  const made = makePreparation(graph);
  preparations.set(graph, made);
  return made;
}

const makePreparation = (graph: TrainingRunner['graph']) => [
  localVariablesInitializer(graph),
  tablesInitializer(graph),
];

async function publish(
  { step, results, path }: Found,
  { outputDir, onResults, session }: EvaluatorOptions,
  writers: SummaryWriters,
  best: BestCheckpoints | undefined,
  log: (line: string) => void,
): Promise<void> {
  if (outputDir !== undefined) {
    const writer = writers.get(outputDir);
    for (const [name, value] of Object.entries(results)) writer.addScalar(name, value, step);
    await writer.flush();
  }
  log(`evaluation of ${path}: ${describeResults(results)}`);
  await onResults?.(results, step);
  await best?.consider(session, { step, results, path: async () => path });
}
