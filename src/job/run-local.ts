/** A whole job in this process, without a cluster. */
import { Session } from '../session/session.js';
import { RecoverableSession } from '../train/recoverable-session.js';
import { Steadiness } from '../train/steadiness.js';
import { applyWarmStarts } from '../train/warm-start.js';
import type { JobDefinition } from './define-job.js';
import { JobInput } from './job-input.js';
import { jobDirectory, loneDirectory } from './task-directory.js';
import { type LoopResult, trainLoop, unlessInputIsOver } from './train-loop.js';
import { buildTrainingGraph } from './training-graph.js';

export interface RunInProcessOptions {
  /** Where checkpoints go, if the job has them. Default: `.shoal/JOB/worker-0`. */
  readonly dir?: string;
  readonly signal?: AbortSignal;
  readonly log?: (line: string) => void;
}

export interface InProcessResult extends LoopResult {
  /** The job's outputs, as nested arrays. */
  readonly outputs: Readonly<Record<string, unknown>>;
}

export async function runInProcess(
  job: JobDefinition,
  options: RunInProcessOptions = {},
): Promise<InProcessResult> {
  const { signal = new AbortController().signal, log = () => {} } = options;
  const parts = buildTrainingGraph(job);
  await using runner = Session.open({ graph: parts.graph });
  const { checkpoint, inflight: lanes = 1 } = job.train;
  const steadiness = new Steadiness();
  await using input = await JobInput.open({ parts, runner, lanes, steadiness, signal, log });
  // A job without checkpoints loads nothing of them.
  const checkpoints =
    checkpoint &&
    new (await import('./checkpointing.js')).JobCheckpoints(job, checkpoint, {
      session: runner,
      dir: options.dir ?? loneDirectory(jobDirectory(job.name)),
      log,
      steadiness,
      input: input.checkpointed,
    });
  const { summaryOp, graph } = parts;
  const dir = options.dir ?? '.';
  await using summaries =
    summaryOp &&
    new (await import('./summaries.js')).JobSummaries({
      ...job.train.summaries,
      graph,
      summaryOp,
      dir,
      signal,
      log,
    });
  const session = new RecoverableSession({
    runner,
    graph: parts.graph,
    isChief: true,
    log,
    isRecoverable: () => false,
    warmStart: () => applyWarmStarts(runner, { log }),
    onReady: () => input.ready(),
    ...input.valuesBy(checkpoints),
  });
  await session.ready();
  checkpoints?.begin((await session.run(parts.globalStep.toOutput())).number());
  const onStep = (step: number) => checkpoints?.saw(step);
  const { leased, failure: inputFailure } = input;
  const result = await trainLoop(session, parts, {
    ...job.train,
    signal,
    log,
    onStep,
    leased,
    inputFailure,
    summaries,
  });
  input.finish();
  await checkpoints?.end(result.step, result);
  const values = await session.run(parts.outputs).catch(unlessInputIsOver);
  const outputs = Object.fromEntries(
    Object.entries(values).map(([name, tensor]) => [name, tensor.toArray()]),
  );
  return { ...result, outputs };
}
