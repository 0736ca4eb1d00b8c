/**
 * TensorFlow 1's MonitoredTrainingSession: the chief restores or initializes variables, saves checkpoints and summaries
 * and counts steps; the other workers wait for it and train.
 *
 *   await MonitoredTrainingSession({ server, checkpointDir, hooks }, async (session) => {
 *     while (!session.shouldStop()) await session.run(trainOp);
 *   });
 *
 * With a function the session is closed when it returns, like Python's `with`; the end of the input and a stop are not
 * errors. Without one the caller closes it, for example with `await using`.
 */

import { throwIfAborted } from '../../../base/async/deadline.js';
import type { OrNull } from '../../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../../base/errors/option-names.js';
import { defaultLog, type Log } from '../../../base/text/log.js';
import { currentGraph, type Graph } from '../../../tensorflow/graph/graph.js';
import { Saver } from '../checkpoints/saver.js';
import { openTraining, PLACE_OPTIONS, type PlaceOptions } from '../core/open-training.js';
import { startQueueRunners } from '../core/queue-runners.js';
import { Scaffold } from '../core/scaffold.js';
import { scaffoldValues } from '../core/scaffold-values.js';
import { CheckpointSaverHook } from '../hooks/checkpoint-saver.js';
import type { SessionRunHook } from '../hooks/session-run-hook.js';
import { StepCounterHook } from '../hooks/step-counter.js';
import { SummarySaverHook } from '../hooks/summary-saver.js';
import { SummaryWriters } from '../hooks/summary-writers.js';
import { Coordinator } from '../recovery/coordinator.js';
import { StepEnding } from '../recovery/steps/step-ending.js';
import { serverAt } from '../task/server.js';
import { MonitoredSession } from './monitored-session.js';

export interface MonitoredTrainingOptions extends PlaceOptions {
  /** The graph to train. Default: the current graph. */
  readonly graph?: Graph;
  /** Whether this task is the chief. Default: what the server reports; true without a cluster. */
  readonly isChief?: boolean;
  /** The directory of checkpoints. Default: none, nothing is saved or restored. */
  readonly checkpointDir?: string;
  /** Initializers, saver and summaries; default: those of the graph. */
  readonly scaffold?: Scaffold;
  /** Hooks of this task; default: none. */
  readonly hooks?: readonly SessionRunHook[];
  /** Hooks that run on the chief alone. Default: none. */
  readonly chiefOnlyHooks?: readonly SessionRunHook[];
  /** Seconds between checkpoints; null: none by time. Default: 600, or none if `saveCheckpointSteps` is set. */
  readonly saveCheckpointSecs?: number | null;
  /** Steps between checkpoints; default: none. */
  readonly saveCheckpointSteps?: number | null;
  /**
   * How long the last save is tried again if a disk is full or does not work, or a task cannot be reached; meanwhile the
   * values stay in memory. Default: 1800.
   */
  readonly lastSaveSecs?: number;
  /** Seconds between summaries; default: none. */
  readonly saveSummariesSecs?: number | null;
  /** Steps between summaries; null: none by steps. Default: 100, or none if `saveSummariesSecs` is set. */
  readonly saveSummariesSteps?: number | null;
  /** Steps between measurements of the step rate; null: none. Default: 100. */
  readonly logStepCountSteps?: number | null;
  /** How long queue runners and other loops may take to stop. Default: 120. */
  readonly stopGracePeriodSecs?: number;
  /** The directory of event files. Default: `checkpointDir`. */
  readonly summaryDir?: string;
  /** Whether training continues while a checkpoint is written. Default: true on a cluster. */
  readonly saveInBackground?: boolean;
  /** When it fires, training stops, the last checkpoint is saved, and the session closes gracefully. Default: none. */
  readonly signal?: AbortSignal;
  /** Receives log lines; default: `console.error`, of lines of at least the level SHOAL_LOG_LEVEL. */
  readonly log?: Log;
}

/** All of them: a misspelt one is an error. */
const OPTIONS: Names<MonitoredTrainingOptions> = {
  ...PLACE_OPTIONS,
  graph: true,
  isChief: true,
  checkpointDir: true,
  scaffold: true,
  hooks: true,
  chiefOnlyHooks: true,
  saveCheckpointSecs: true,
  saveCheckpointSteps: true,
  lastSaveSecs: true,
  saveSummariesSecs: true,
  saveSummariesSteps: true,
  logStepCountSteps: true,
  stopGracePeriodSecs: true,
  summaryDir: true,
  saveInBackground: true,
  signal: true,
  log: true,
  server: true,
  master: true,
};

/** For these null is none, not the default. */
const MEANINGFUL_NULLS = [
  'saveCheckpointSecs',
  'saveCheckpointSteps',
  'saveSummariesSecs',
  'saveSummariesSteps',
  'logStepCountSteps',
] as const;

export function MonitoredTrainingSession(
  options?: OrNull<MonitoredTrainingOptions>,
): Promise<MonitoredSession>;
export function MonitoredTrainingSession<T>(
  options: OrNull<MonitoredTrainingOptions>,
  body: (session: MonitoredSession) => Promise<T>,
): Promise<T | undefined>;
export async function MonitoredTrainingSession<T>(
  options: OrNull<MonitoredTrainingOptions> = {},
  body?: (session: MonitoredSession) => Promise<T>,
): Promise<MonitoredSession | T | undefined> {
  const session = await createSession(
    knownOptions(options, OPTIONS, 'MonitoredTrainingSession', MEANINGFUL_NULLS),
  );
  if (!body) return session;
  let result: T | undefined;
  try {
    result = await body(session);
  } catch (error) {
    if (!session.isCleanEnd(error)) {
      await session.close({ error });
      throw error;
    }
  }
  await session.close();
  return result;
}

async function createSession(given: MonitoredTrainingOptions): Promise<MonitoredSession> {
  // A TensorFlow 1 program passes only the server's target.
  const options = { ...given, server: given.server ?? serverAt(given.master) };
  const { graph = currentGraph(), server, signal, stopGracePeriodSecs = 120 } = options;
  const { isChief = server?.isChief ?? true, scaffold = new Scaffold() } = options;
  const log = options.log ?? defaultLog();
  throwIfAborted('Starting a training session', signal);
  const hooks = [...(isChief ? chiefHooks(options, scaffold) : []), ...(options.hooks ?? [])];
  const writers = new SummaryWriters();
  const coordinator = new Coordinator({ log });
  const ending = new StepEnding(signal);
  try {
    const task = server?.task.task;
    for (const hook of hooks) await hook.begin?.({ graph, writers, log, task, signal });
    scaffold.finalize(graph, () => new Saver({ log }));
    const { checkpointDir, recovery, maxWaitSecs = 7200, stepTimeoutSecs = 600 } = options;
    const stop = ending.signal;
    const saves = checkpointDir !== undefined && savesCheckpoints(options);
    let hasQueueRunners = false;
    const training = await openTraining({
      ...options,
      graph,
      isChief,
      hooks,
      coordinator,
      values: (runner) => scaffoldValues(scaffold, runner, { checkpointDir, recovery, signal: stop, log }),
      maxWaitMs: maxWaitSecs * 1000,
      stepMs: stepTimeoutSecs * 1000,
      savesCheckpoints: saves,
      signal: stop,
      stop: signal,
      log,
      onReady: () => {
        // Called again after a loss, also one during the start.
        if (!hasQueueRunners) startQueueRunners(training.background, { coordinator });
        hasQueueRunners = true;
      },
    });
    const session = new MonitoredSession({
      training,
      hooks,
      coordinator,
      writers,
      stopGracePeriodSecs,
      ending,
      signal,
      log,
      stays: isChief || saves,
    });
    await session.ready();
    return session;
  } catch (error) {
    ending[Symbol.dispose]();
    await writers.close().catch(() => {
      // The error that failed the start is thrown.
    });
    throw error;
  }
}

function savesCheckpoints({ saveCheckpointSecs, saveCheckpointSteps }: MonitoredTrainingOptions): boolean {
  const { secs, steps } = either(saveCheckpointSecs, saveCheckpointSteps, { secs: 600 });
  return secs !== undefined || steps !== undefined;
}

/** The hooks of the chief, before those of the caller. */
function chiefHooks(options: MonitoredTrainingOptions, scaffold: Scaffold): SessionRunHook[] {
  const { checkpointDir, summaryDir = checkpointDir, logStepCountSteps = 100 } = options;
  const hooks: SessionRunHook[] = [...(options.chiefOnlyHooks ?? [])];
  if (summaryDir !== undefined) {
    if (logStepCountSteps) {
      hooks.push(new StepCounterHook({ outputDir: summaryDir, everyNSteps: logStepCountSteps }));
    }
    const { secs, steps } = either(options.saveSummariesSecs, options.saveSummariesSteps, { steps: 100 });
    if (secs !== undefined || steps !== undefined) {
      hooks.push(new SummarySaverHook({ scaffold, outputDir: summaryDir, saveSecs: secs, saveSteps: steps }));
    }
  }
  if (checkpointDir !== undefined && savesCheckpoints(options)) {
    const { secs, steps } = either(options.saveCheckpointSecs, options.saveCheckpointSteps, { secs: 600 });
    const background =
      options.saveInBackground ?? (options.gate !== undefined || options.server !== undefined);
    const { lastSaveSecs } = options;
    hooks.push(
      new CheckpointSaverHook({
        checkpointDir,
        scaffold,
        background,
        saveSecs: secs,
        saveSteps: steps,
        lastSaveSecs,
      }),
    );
  }
  return hooks;
}

/** Seconds or steps, whichever is given; the default if neither is. Seconds take precedence. */
function either(
  secs: number | null | undefined,
  steps: number | null | undefined,
  defaults: { readonly secs?: number; readonly steps?: number },
): { readonly secs?: number; readonly steps?: number | undefined } {
  if (secs === undefined && steps === undefined) return defaults;
  if (secs) return { secs };
  return steps ? { steps } : {};
}
