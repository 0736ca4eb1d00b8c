/** Runs a complete job in this process, without a cluster. */
import { eventLog } from '../../../base/text/events.js';
import type { JobEvent } from '../../../base/text/job-event.js';
import type { Log } from '../../../base/text/log.js';
import type { JobDefinition } from '../definition/define-job.js';
import type { JobResult } from '../definition/job-result.js';
import { jobDirectory, localDirectory } from '../directory/task-directory.js';
import { buildTrainingGraph } from '../graph/training-graph.js';
import { endData } from './describe-outputs.js';
import { trainJob } from './train-job.js';

export interface RunInProcessOptions {
  /** The directory of checkpoints, summaries and exports. Default: `.shoal/JOB/worker-0`. */
  readonly dir?: string;
  /** Stops training after the current step; default: none. */
  readonly signal?: AbortSignal;
  /** Receives the log lines; default: none. */
  readonly log?: Log;
  /** Receives what happens as data: steps, saves, evaluations, exports, the end, and log lines; default: none. */
  readonly onEvent?: (event: JobEvent) => void;
  /** Called with the global step, at the start and after each step. @internal */
  readonly onStep?: (step: number) => void;
  /** Whether the data in the log contains the scalar outputs; default: if `onEvent` is given. @internal */
  readonly reportsOutputs?: boolean;
}

export async function runInProcess(
  job: JobDefinition,
  options: RunInProcessOptions = {},
): Promise<JobResult> {
  const { signal = new AbortController().signal, onEvent } = options;
  const { dir = localDirectory(jobDirectory(job.name)), onStep } = options;
  const events = onEvent && eventLog(onEvent, 'worker 0');
  const log: Log = (line, level, data) => {
    options.log?.(line, level, data);
    events?.(line, level, data);
  };
  const reportsOutputs = onEvent !== undefined || options.reportsOutputs;
  const graph = buildTrainingGraph(job);
  const result = await trainJob(job, graph, { dir, signal, log, onStep, reportsOutputs });
  events?.(`ended at step ${result.step}`, 'info', endData(result, job.train.lastStep));
  return result;
}
