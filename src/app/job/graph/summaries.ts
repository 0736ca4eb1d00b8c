/**
 * The summaries of a job's model (`tf.summary.*`), written to event files during training. The chief fetches them in
 * the run of a training step, so they describe the batch of that step and consume no additional one.
 */
import { join } from 'node:path';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import type { SessionRunHook } from '../../../training/train/hooks/session-run-hook.js';
import { StepCounterHook } from '../../../training/train/hooks/step-counter.js';
import { SummarySaverHook } from '../../../training/train/hooks/summary-saver.js';
import type { SummaryWriters } from '../../../training/train/hooks/summary-writers.js';
import type { SummariesOptions } from '../definition/define-job.js';

const DIRECTORY = 'summaries';
const EVERY_STEPS = 100;

export interface SummaryHooksOptions extends SummariesOptions {
  readonly graph: Graph;
  readonly summaryOp: Output<'string'>;
  /** The task's own directory. */
  readonly dir: string;
  readonly writers: SummaryWriters;
}

export function summaryHooks(options: SummaryHooksOptions): readonly SessionRunHook[] {
  const { graph, summaryOp, dir, writers, everySecs, everySteps, directory = DIRECTORY } = options;
  const outputDir = join(dir, directory);
  const steps = everySteps ?? (everySecs === undefined ? EVERY_STEPS : undefined);
  const saver = new SummarySaverHook({ summaryOp, outputDir, saveSteps: steps, saveSecs: everySecs });
  const counter = new StepCounterHook({ outputDir, everyNSteps: steps, everyNSecs: everySecs });
  // The training loop logs the step rate itself.
  for (const hook of [saver, counter]) hook.begin({ graph, writers, log: () => {} });
  return [saver, counter];
}
