/** A whole job in this process, without a cluster. */
import { Session } from '../session/session.js';
import { applyWarmStarts } from '../train/checkpoints/warm-start.js';
import { RecoverableSession } from '../train/recovery/recoverable-session.js';
import { RecoveryGuard } from '../train/recovery/recovery-guard.js';
import { StepGate } from '../train/recovery/step-gate.js';
import type { TrainingRunner } from '../train/recovery/training-runner.js';
import type { JobDefinition } from './define-job.js';
import { JobInput } from './job-input.js';
import { jobDirectory, loneDirectory } from './task-directory.js';
import { type LoopResult, trainLoop, unlessInputIsOver } from './train-loop.js';
import { buildTrainingGraph } from './training-graph.js';

export interface RunInProcessOptions {
  /** Where checkpoints, summaries and exports go, if the job has them. Default: `.shoal/JOB/worker-0`. */
  readonly dir?: string;
  readonly signal?: AbortSignal;
  readonly log?: (line: string) => void;
}

export interface InProcessResult extends LoopResult {
  /** The job's outputs, as nested arrays. */
  readonly outputs: Readonly<Record<string, unknown>>;
  /** The directory of the last export, if the job has any. */
  readonly exported: string | undefined;
}

export async function runInProcess(
  job: JobDefinition,
  options: RunInProcessOptions = {},
): Promise<InProcessResult> {
  const { signal = new AbortController().signal, log = () => {} } = options;
  const { dir = loneDirectory(jobDirectory(job.name)) } = options;
  const parts = buildTrainingGraph(job);
  await using runner = Session.open({ graph: parts.graph });
  const { checkpoint, inflight: lanes = 1 } = job.train;
  const gate = new StepGate();
  const beside = betweenSteps(runner, gate);
  const recoveryGuard = new RecoveryGuard();
  await using input = await JobInput.open({ parts, runner, lanes, recoveryGuard, signal, log });
  // A job without checkpoints loads nothing of them.
  const checkpoints =
    checkpoint &&
    new (await import('./checkpointing.js')).JobCheckpoints(job, checkpoint, {
      session: beside,
      dir,
      log,
      recoveryGuard,
      input: input.checkpointed,
      signal,
    });
  const exports =
    job.export &&
    new (await import('./exporting.js')).JobExports(job, job.export, {
      session: beside,
      dir,
      recoveryGuard,
      signal,
      log,
    });
  if (job.export?.best) log('the best checkpoint is exported by an evaluator, which only a cluster has');
  const { summaryOp, graph } = parts;
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
    signal,
    log,
    gate,
    isRecoverable: () => false,
    isAlone: true,
    warmStart: () => applyWarmStarts(runner, { signal, log }),
    onReady: () => input.ready(),
    ...input.valuesBy(checkpoints),
  });
  await session.ready();
  const first = (await session.run(parts.globalStep.toOutput())).number();
  checkpoints?.begin(first);
  exports?.begin(first);
  const onStep = (step: number) => {
    checkpoints?.saw(step);
    exports?.saw(step);
  };
  const { leased, failure: inputFailure } = input;
  let result: LoopResult;
  try {
    result = await trainLoop(session, parts, {
      ...job.train,
      signal,
      log,
      onStep,
      leased,
      inputFailure,
      summaries,
    });
  } finally {
    await Promise.all([checkpoints?.stop(), exports?.stop()]);
  }
  input.finish();
  await checkpoints?.end(result.step);
  const exported = await exports?.end(result);
  const interrupted = result.interrupted || (exports !== undefined && exported === undefined);
  // Not by the session, which runs nothing more once it is stopped.
  const values = await runner.run(parts.outputs).catch(unlessInputIsOver);
  const outputs = Object.fromEntries(
    Object.entries(values).map(([name, tensor]) => [name, tensor.toArray()]),
  );
  return { ...result, interrupted, outputs, exported };
}

/** Longer than any step: nobody else could end the pause. */
const PAUSE_MS = 2 ** 31 - 1;

/** Runs that see variables as a whole number of steps left them: one at a time, while no step is under way. */
function betweenSteps(session: Session, gate: StepGate): TrainingRunner {
  let last: Promise<unknown> = Promise.resolve();
  const run: TrainingRunner['run'] = (fetches, options) => {
    const next = last.then(async () => {
      await gate.park({ leaseMs: PAUSE_MS });
      try {
        return await session.run(fetches, options);
      } finally {
        gate.resume();
      }
    });
    last = next.catch(() => undefined);
    return next;
  };
  return { graph: session.graph, run };
}
