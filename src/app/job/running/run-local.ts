/** Runs a complete job in this process, without a cluster. */
import type { Log } from '../../../base/text/log.js';
import type { JobDefinition } from '../definition/define-job.js';
import type { JobResult } from '../definition/job-result.js';
import { jobDirectory, localDirectory } from '../directory/task-directory.js';
import { buildTrainingGraph } from '../graph/training-graph.js';
import { trainJob } from './train-job.js';

export interface RunInProcessOptions {
  /** The directory of checkpoints, summaries and exports. Default: `.shoal/JOB/worker-0`. */
  readonly dir?: string;
  /** Stops training after the current step; default: none. */
  readonly signal?: AbortSignal;
  /** Receives the log lines; default: none. */
  readonly log?: Log;
  /** Called with the global step, at the start and after each step. @internal */
  readonly onStep?: (step: number) => void;
}

export async function runInProcess(
  job: JobDefinition,
  options: RunInProcessOptions = {},
): Promise<JobResult> {
  const { signal = new AbortController().signal, log = () => {} } = options;
  const { dir = localDirectory(jobDirectory(job.name)), onStep } = options;
  return trainJob(job, buildTrainingGraph(job), { dir, signal, log, onStep });
}
