/**
 * TensorFlow 1's MonitoredTrainingSession: the chief restores or initialises, saves checkpoints and summaries and
 * counts steps; the other workers wait for it and train.
 *
 *   await MonitoredTrainingSession({ server, checkpointDir, hooks }, async (session) => {
 *     while (!session.shouldStop()) await session.run(trainOp);
 *   });
 *
 * With a function the session is closed when it returns, and the end of the input or a stop ends it quietly, as
 * Python's `with`. Without one the caller closes it, by `await using` for example.
 */
import { setMaxListeners } from 'node:events';
import { throwIfAborted } from '../../async/deadline.js';
import { serverAt } from '../../cluster/runtime/server.js';
import { invalid } from '../../errors/errors.js';
import { currentGraph, type Graph } from '../../graph/graph.js';
import { Saver } from '../checkpoints/saver.js';
import { openTraining, type PlaceOptions } from '../core/open-training.js';
import { startQueueRunners } from '../core/queue-runners.js';
import { Scaffold } from '../core/scaffold.js';
import { CheckpointSaverHook } from '../hooks/checkpoint-saver.js';
import type { SessionRunHook } from '../hooks/session-run-hook.js';
import { ShardsHook } from '../hooks/shards.js';
import { StepCounterHook } from '../hooks/step-counter.js';
import { SummarySaverHook } from '../hooks/summary-saver.js';
import { SummaryWriters } from '../hooks/summary-writers.js';
import { Coordinator } from '../recovery/coordinator.js';
import { MonitoredSession } from './monitored-session.js';

export interface MonitoredTrainingOptions extends PlaceOptions {
  /** The graph to train; the current one when left out. */
  readonly graph?: Graph;
  /** Whether this task leads; as the server says when left out, and where there is no cluster. */
  readonly isChief?: boolean;
  readonly checkpointDir?: string | undefined;
  readonly scaffold?: Scaffold;
  readonly hooks?: readonly SessionRunHook[];
  readonly chiefOnlyHooks?: readonly SessionRunHook[];
  /** 600 unless steps are given; null: no checkpoints by time. */
  readonly saveCheckpointSecs?: number | null;
  readonly saveCheckpointSteps?: number | null;
  readonly saveSummariesSecs?: number | null;
  /** 100 unless seconds are given; null: no summaries by steps. */
  readonly saveSummariesSteps?: number | null;
  /** null: steps are not counted. */
  readonly logStepCountSteps?: number | null;
  readonly stopGracePeriodSecs?: number;
  /** Where event files go; `checkpointDir` when left out. */
  readonly summaryDir?: string | undefined;
  /** Whether training goes on while a checkpoint is written; where steps can be parked for a cut it does. */
  readonly saveInBackground?: boolean;
  /** When it fires, training stops, the last checkpoint is saved, and all closes in order. */
  readonly signal?: AbortSignal | undefined;
  readonly log?: (line: string) => void;
}

export function MonitoredTrainingSession(options: MonitoredTrainingOptions): Promise<MonitoredSession>;
export function MonitoredTrainingSession<T>(
  options: MonitoredTrainingOptions,
  body: (session: MonitoredSession) => Promise<T>,
): Promise<T | undefined>;
export async function MonitoredTrainingSession<T>(
  options: MonitoredTrainingOptions,
  body?: (session: MonitoredSession) => Promise<T>,
): Promise<MonitoredSession | T | undefined> {
  const session = await createSession(options);
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
  // The literal TensorFlow 1 call has the server's target alone.
  const options = { ...given, server: given.server ?? serverAt(given.master) };
  const { graph = currentGraph(), server, signal, stopGracePeriodSecs = 120 } = options;
  const { isChief = server?.isChief ?? true, scaffold = new Scaffold() } = options;
  const log = options.log ?? ((line: string) => console.error(line));
  throwIfAborted('Starting a training session', signal);
  const hooks = [...(isChief ? chiefHooks(options, scaffold) : []), ...(options.hooks ?? [])];
  const shards = shardsAmong(hooks);
  const writers = new SummaryWriters();
  const coordinator = new Coordinator({ log });
  const giveUp = new AbortController();
  // Every run and every part of a restore listens to it.
  setMaxListeners(0, giveUp.signal);
  const giveUpStart = () => giveUp.abort(signal?.reason);
  signal?.addEventListener('abort', giveUpStart, { once: true });
  try {
    for (const hook of hooks) await hook.begin?.({ graph, writers, log });
    scaffold.finalize(graph, () => new Saver({ log }));
    const training = await openTraining({
      ...options,
      graph,
      isChief,
      scaffold,
      shards: shards?.parts,
      signal: giveUp.signal,
      log,
      onReady: async (place, again) => {
        if (!again) startQueueRunners(training.background, { coordinator });
        for (const hook of hooks) await hook.afterCreateSession?.(place.runner, coordinator);
      },
      onInputError: (error) => coordinator.requestStop(error),
    });
    try {
      await training.session.ready();
    } catch (error) {
      coordinator.requestStop();
      await training[Symbol.asyncDispose]();
      throw error;
    }
    return new MonitoredSession({
      training,
      hooks,
      coordinator,
      writers,
      stopGracePeriodSecs,
      giveUp,
      signal,
      log,
      shards,
      staysAtEnd: isChief || (options.checkpointDir !== undefined && savesCheckpoints(options)),
    });
  } catch (error) {
    await writers.close().catch(() => {
      // The error that ended the start says more.
    });
    throw error;
  } finally {
    signal?.removeEventListener('abort', giveUpStart);
  }
}

function shardsAmong(hooks: readonly SessionRunHook[]): ShardsHook | undefined {
  const [shards, ...others] = hooks.filter((hook): hook is ShardsHook => hook instanceof ShardsHook);
  if (others.length > 0)
    throw invalid('A session has one ShardsHook at most: one ledger is in its checkpoints');
  return shards;
}

function savesCheckpoints({ saveCheckpointSecs, saveCheckpointSteps }: MonitoredTrainingOptions): boolean {
  const { secs, steps } = either(saveCheckpointSecs, saveCheckpointSteps, { secs: 600 });
  return secs !== undefined || steps !== undefined;
}

/** What the chief does besides training. Its own hooks come after, as their values may be looked at here. */
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
    hooks.push(
      new CheckpointSaverHook({ checkpointDir, scaffold, background, saveSecs: secs, saveSteps: steps }),
    );
  }
  return hooks;
}

/** Seconds or steps, whichever was given; the default where neither was. Of both, seconds count. */
function either(
  secs: number | null | undefined,
  steps: number | null | undefined,
  otherwise: { readonly secs?: number; readonly steps?: number },
): { readonly secs?: number | undefined; readonly steps?: number | undefined } {
  if (secs === undefined && steps === undefined) return otherwise;
  if (secs) return { secs };
  return steps ? { steps } : {};
}
