/** A whole job in this process, without a cluster. */
import { Session } from '../session/session.js';
import { RecoverableSession } from '../train/recoverable-session.js';
import type { JobDefinition } from './define-job.js';
import { type LoopResult, trainLoop } from './train-loop.js';
import { buildTrainingGraph } from './training-graph.js';

export interface RunInProcessOptions {
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
  const session = new RecoverableSession({ runner, graph: parts.graph, isChief: true, log });
  const result = await trainLoop(session, parts, { ...job.train, signal, log });
  const values = await session.run(parts.outputs);
  const outputs = Object.fromEntries(
    Object.entries(values).map(([name, tensor]) => [name, tensor.toArray()]),
  );
  return { ...result, outputs };
}
