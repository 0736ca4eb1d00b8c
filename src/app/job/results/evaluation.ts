/**
 * The evaluator of a job: a separate task with its own disk. It finds checkpoints through the cluster, restores each
 * into its own session, writes the metrics as summaries and keeps copies of the best. When the workers have left it
 * evaluates the last checkpoint and ends; the ps wait for it.
 */

import { join } from 'node:path';
import { invalid, ShoalError } from '../../../base/errors/errors.js';
import { EXIT } from '../../../base/errors/exit-codes.js';
import { count } from '../../../base/text/format.js';
import type { Log } from '../../../base/text/log.js';
import { trains } from '../../../distributed/cluster/spec/task-id.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { mean } from '../../../tensorflow/layers/metrics/index.js';
import { SparseTensor } from '../../../tensorflow/layers/sparse/sparse-tensor.js';
import { Session } from '../../../tensorflow/session/session.js';
import { getOrCreateGlobalStep } from '../../../tensorflow/variables/global-step.js';
import { Dataset } from '../../../training/input/dataset/dataset.js';
import { Saver } from '../../../training/train/checkpoints/saver.js';
import type { BestPolicy } from '../../../training/train/evaluation/best-checkpoints.js';
import { describeResults, type Evaluation } from '../../../training/train/evaluation/evaluate.js';
import { evaluateRepeatedly } from '../../../training/train/evaluation/evaluator.js';
import type { Server } from '../../../training/train/task/server.js';
import { callModel, inputName } from '../definition/call-model.js';
import type { JobDefinition } from '../definition/define-job.js';
import { evaluationsIn } from '../directory/task-directory.js';
import { modelInput } from '../graph/training-graph.js';
import { unshardedInput } from '../graph/unsharded-input.js';
import { EvaluatedCheckpoints } from './evaluated-checkpoints.js';
import { BestExports } from './exporting.js';

export interface EvaluateJobOptions {
  /** The task's own directory: event files go to `eval` in it, copies of the best checkpoints to `best`. */
  readonly dir: string;
  readonly signal: AbortSignal;
  readonly log: Log;
  /** Called with the step of each evaluated checkpoint. */
  readonly onStep: (step: number) => void;
}

/** Evaluates until the job is over; returns the exit code of the process. */
export async function evaluateJob(
  server: Server,
  job: JobDefinition,
  { dir, signal, log, onStep }: EvaluateJobOptions,
): Promise<number> {
  const { checkpoint } = job.train;
  if (!checkpoint) {
    throw new ShoalError('SHOAL_CONFIG', `Job '${job.name}' has no checkpoints to evaluate`, {
      hint: 'Enable checkpoints: train: { checkpoint: { everySecs: 60 } }.',
    });
  }
  const { graph, evaluation } = evaluationGraph(job);
  await using session = Session.open({ graph });
  const store = server.checkpoints.store(checkpoint.store);
  const namespace = store.kind === 'peers' ? job.name : '';
  const { best: policy, pollSecs } = job.evaluate ?? {};
  const best = policy && bestIn(dir, policy, log);
  using checkpoints = new EvaluatedCheckpoints(job, { server, dir, namespace, signal, log });
  checkpoints.record.check(Object.keys(evaluation.metrics));
  const { best: exported } = job.export ?? {};
  const exports = exported && new BestExports(job, exported, { session, dir, log });
  let evaluated = Number.NEGATIVE_INFINITY;
  const { evaluations, step, results } = await evaluateRepeatedly({
    session,
    saver: checkpoints.source,
    checkpointDir: 'checkpoints',
    evaluation,
    outputDir: evaluationsIn(dir),
    isOver: () => isTrainingOver(server, evaluated >= job.train.lastStep),
    onResults: async (results, step) => {
      evaluated = step;
      onStep(step);
      await checkpoints.evaluated(step, results);
      server.metrics.emit({ type: 'evaluated', step, results });
      await exports?.consider(results, step);
    },
    // A job may save rarely or start late: it is over when the workers have left.
    timeoutSecs: Number.POSITIVE_INFINITY,
    ...(pollSecs === undefined ? {} : { pollSecs }),
    best,
    signal,
    log,
  });
  log(
    signal.aborted
      ? `stopped after ${count(evaluations, 'evaluation')}`
      : [
          `done: ${count(evaluations, 'evaluation')}, the last of step ${step}`,
          ...(results ? [describeResults(results)] : []),
        ].join(': '),
  );
  return signal.aborted ? EXIT.interrupted : 0;
}

/** Where copies of the best checkpoints are kept. They are pinned; of the others only the newest stays. */
export const bestIn = (dir: string, policy: BestPolicy, log: Log) => ({
  policy,
  saver: new Saver({ maxToKeep: 1, log }),
  directory: join(dir, 'best'),
});

/** The model on the evaluation's input, in this process, without an optimizer. */
export function evaluationGraph(job: JobDefinition): { graph: Graph; evaluation: Evaluation } {
  const graph = new Graph();
  if (job.seed !== undefined) graph.seed = job.seed;
  return graph.asDefault(() => {
    getOrCreateGlobalStep(graph);
    const { evaluate = {} } = job;
    const given = evaluate.input ? evaluate.input({ params: job.params ?? {} }) : unshardedInput(job);
    const input = modelInput(evaluate.input ? `evaluate.input of job '${job.name}'` : inputName(job), given);
    const parts = { input, training: false, params: job.params ?? {} };
    const { loss, outputs = {} } = callModel(job, parts, ['loss']);
    const metrics = evaluate.metrics?.({ input, loss, outputs }) ?? { loss: mean(loss.toOutput()) };
    checkMetrics(job.name, metrics);
    const batches = evaluate.batches ?? (given instanceof Dataset ? undefined : 1);
    const inputOps = Object.values(input).map((value) =>
      value instanceof SparseTensor ? value.values.op : value.op,
    );
    return {
      graph,
      evaluation: { metrics, input: inputOps, ...(batches === undefined ? {} : { batches }) },
    };
  });
}

function checkMetrics(job: string, metrics: Evaluation['metrics']): void {
  const wrong = Object.entries(metrics).find(([, metric]) => !metric?.value || !metric.updateOp);
  if (!wrong) return;
  throw invalid(`evaluate.metrics of job '${job}' returns no metric as '${wrong[0]}'`, {
    hint: 'A metric is made by tf.metrics, and counts over all batches: tf.metrics.mean(value) of a tensor.',
  });
}

/** An evaluator that starts after all records of the workers are gone is done when it has evaluated the last step. */
function isTrainingOver(server: Server, isAtEnd: boolean): boolean {
  const hasWorkers = server.task.members().some(({ task }) => trains(task));
  return hasWorkers ? server.training.state().kind === 'over' : isAtEnd;
}
