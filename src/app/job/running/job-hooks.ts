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
import { rateRule } from '../definition/metric-options.js';
import type { TrainingGraph } from '../graph/training-graph.js';
import { ReduceRateHook } from './rate-control.js';

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
  const reduce = rateRule(job);
  const hooks: SessionRunHook[] = [
    ...(onNan === 'ignore' ? [] : [new NanTensorHook(loss, { failOnNanLoss: onNan === 'fail' })]),
    ...(job.callbacks ? [new CallbacksHook(job.callbacks, parts)] : []),
    ...(graph.asDefault(() => job.hooks?.({ loss, outputs, globalStep, isChief })) ?? []),
  ];
  if (earlyStopping && !('metric' in earlyStopping)) {
    const { output, ...options } = earlyStopping;
    const metric = watched(job, parts, 'earlyStopping', output);
    hooks.push(new EarlyStoppingHook({ ...options, metric, isChief }));
  }
  if (reduce && !reduce.isEvaluated && parts.rate && isChief) {
    const metric = watched(job, parts, 'reduceLearningRate', reduce.metric);
    hooks.push(new ReduceRateHook(reduce, { metric, rate: parts.rate, log }));
  }
  for (const hook of hooks) await hook.begin?.({ graph, writers, log, signal, task });
  return hooks;
}

function watched(
  { name }: JobDefinition,
  { loss, outputs }: TrainingGraph,
  option: string,
  output: string | undefined,
): Output {
  const own = output === undefined ? loss : outputs[output];
  const found = own ?? (output === 'loss' ? loss : undefined);
  if (found) return found;
  const names = Object.keys(outputs).join(', ');
  throw invalid(`train.${option} of job '${name}' watches '${output}', which is not an output of its model`, {
    hint: names === '' ? 'The model returns no outputs.' : `The outputs are ${names}.`,
  });
}
