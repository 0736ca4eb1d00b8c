/** The hooks of a job: the job's own, and those behind `train.onNan`, `train.earlyStopping` and `callbacks`. */

import { invalid } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { EarlyStoppingHook } from '../../../training/train/hooks/early-stopping.js';
import { NanTensorHook } from '../../../training/train/hooks/nan-tensor.js';
import type { SessionRunHook } from '../../../training/train/hooks/session-run-hook.js';
import type { SummaryWriters } from '../../../training/train/hooks/summary-writers.js';
import { CallbacksHook } from '../definition/callbacks.js';
import type { JobDefinition } from '../definition/define-job.js';
import type { TrainingGraph } from '../graph/training-graph.js';

export interface JobHooksOptions {
  readonly isChief: boolean;
  readonly writers: SummaryWriters;
  readonly log: Log;
  /** Aborted when training is interrupted. */
  readonly signal: AbortSignal;
  /** The task that trains; default: none. */
  readonly task?: string;
}

/** Creates the hooks and calls their `begin`, which may add to the graph. */
export async function jobHooks(
  job: JobDefinition,
  parts: TrainingGraph,
  { isChief, writers, log, signal, task }: JobHooksOptions,
): Promise<readonly SessionRunHook[]> {
  const { graph, loss, outputs, globalStep } = parts;
  const { onNan = 'fail', earlyStopping } = job.train;
  const hooks: SessionRunHook[] = [
    ...(onNan === 'ignore' ? [] : [new NanTensorHook(loss, { failOnNanLoss: onNan === 'fail' })]),
    ...(job.callbacks ? [new CallbacksHook(job.callbacks, parts)] : []),
    ...(graph.asDefault(() => job.hooks?.({ loss, outputs, globalStep, isChief })) ?? []),
  ];
  if (earlyStopping) {
    const { output, ...options } = earlyStopping;
    hooks.push(new EarlyStoppingHook({ ...options, metric: watched(job, parts, output), isChief }));
  }
  for (const hook of hooks) await hook.begin?.({ graph, writers, log, signal, task });
  return hooks;
}

function watched(
  { name }: JobDefinition,
  { loss, outputs }: TrainingGraph,
  output: string | undefined,
): Output {
  const found = output === undefined ? loss : outputs[output];
  if (found) return found;
  const names = Object.keys(outputs).join(', ');
  throw invalid(
    `train.earlyStopping of job '${name}' watches '${output}', which is not an output of its model`,
    {
      hint: names === '' ? 'The model returns no outputs.' : `The outputs are ${names}.`,
    },
  );
}
