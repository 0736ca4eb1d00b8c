/** A whole job in this process, without a cluster. */
import { Session } from '../session/session.js';
import { RecoverableSession } from '../train/recoverable-session.js';
import { Steadiness } from '../train/steadiness.js';
import type { JobDefinition } from './define-job.js';
import { type LoopResult, trainLoop, unlessInputIsOver } from './train-loop.js';
import { buildTrainingGraph } from './training-graph.js';

export interface RunInProcessOptions {
  /** Where checkpoints go, if the job has them; the current directory unless told. */
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
  const { checkpoint } = job.train;
  const { localInit } = parts;
  // A job without checkpoints loads nothing of them.
  const checkpoints =
    checkpoint &&
    new (await import('./checkpointing.js')).JobCheckpoints(job, checkpoint, {
      session: runner,
      dir: options.dir ?? '.',
      log,
      steadiness: new Steadiness(),
    });
  const session = new RecoverableSession({
    runner,
    graph: parts.graph,
    isChief: true,
    log,
    isRecoverable: () => false,
    ...(localInit ? { localInit: async () => void (await runner.run(localInit)) } : {}),
    ...(checkpoints ? { restore: (missing, again) => checkpoints.restore(missing, again) } : {}),
  });
  await session.ready();
  checkpoints?.begin((await session.run(parts.globalStep.toOutput())).number());
  const onStep = (step: number) => checkpoints?.saw(step);
  const result = await trainLoop(session, parts, { ...job.train, signal, log, onStep });
  await checkpoints?.end(result.step, result);
  const values = await session.run(parts.outputs).catch(unlessInputIsOver);
  const outputs = Object.fromEntries(
    Object.entries(values).map(([name, tensor]) => [name, tensor.toArray()]),
  );
  return { ...result, outputs };
}
