/**
 * The exports of a job: SavedModels for serving, each a new version in one directory. The chief exports the trained
 * model at the end and periodically; the evaluator exports checkpoints that are better than all earlier ones. Old
 * versions are removed.
 */
import { basename, join } from 'node:path';
import { describeError, hintLineOf, invalid, isShoalError, messageOf } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import { tags } from '../../../training/saved-model/signatures/constants.js';
import { clusterVariables } from '../../../training/saved-model/variables/cluster-variables.js';
import { trainedVariables } from '../../../training/saved-model/variables/trained-variables.js';
import {
  sessionVariables,
  type VariableSource,
} from '../../../training/saved-model/variables/variable-source.js';
import { SavedModelBuilder } from '../../../training/saved-model/writing/builder.js';
import { removeLeftovers } from '../../../training/saved-model/writing/staging.js';
import {
  finishRemovals,
  nextVersion,
  ORIGIN_FILE,
  type Origin,
  removeVersions,
  versionsOf,
} from '../../../training/saved-model/writing/versions.js';
import { every, SaveSchedule, ScheduledWork } from '../../../training/train/checkpoints/save-schedule.js';
import { namedVariables } from '../../../training/train/checkpoints/saver.js';
import type { BestPolicy } from '../../../training/train/evaluation/best-checkpoints.js';
import type { Results } from '../../../training/train/evaluation/evaluate.js';
import { isBetter } from '../../../training/train/hooks/metric-comparison.js';
import { READ_STEP_MS, readGlobalStep } from '../../../training/train/recovery/read-global-step.js';
import type { RecoveryGuard } from '../../../training/train/recovery/recovery-guard.js';
import type { Server } from '../../../training/train/task/server.js';
import type { TrainingRunner } from '../../../training/train/task/training-runner.js';
import type { ExportOptions, JobDefinition } from '../definition/define-job.js';
import type { LoopResult } from '../definition/job-result.js';
import { BEST_EXPORTS, exportsIn } from '../directory/task-directory.js';
import { buildServingGraph } from '../graph/serving-graph.js';
import { JobPublishing } from './publishing.js';

const KEEP = 5;

export interface ExportRequest {
  readonly source: VariableSource;
  /** The directory of this version. */
  readonly target: string;
  readonly origin: Omit<Origin, 'job'>;
  readonly signal?: AbortSignal;
  /** Receives warnings about the signature; default: none, they were logged before training. */
  readonly onWarning?: (warning: string) => void;
}

/** Exports the job's model; resolves with the directory of the version. */
export async function exportModel(job: JobDefinition, request: ExportRequest): Promise<string> {
  const { source, target, origin, signal, onWarning } = request;
  const { graph, signatures, warnings } = buildServingGraph(job);
  using _ = graph;
  for (const warning of warnings) onWarning?.(warning);
  await using builder = new SavedModelBuilder(target);
  await builder.addMetaGraphAndVariables({ graph }, [tags.serving], {
    signatureDefMap: signatures,
    source,
    signal,
  });
  builder.addExtraAsset(ORIGIN_FILE, `${JSON.stringify({ job: job.name, ...origin }, null, 2)}\n`);
  return await builder.save({ signal });
}

/** Exports a new version to a directory, and removes all but the newest `keep` versions. */
async function exportVersion(
  job: JobDefinition,
  directory: string,
  keep: number,
  request: Omit<ExportRequest, 'target'> & { readonly log: Log },
): Promise<string> {
  const target = join(directory, String(await nextVersion(directory, Date.now())));
  const path = await exportModel(job, { ...request, target });
  try {
    await removeLeftovers(directory, (name) => /^\d+$/.test(name));
    await finishRemovals(directory);
    if (keep > 0) await removeVersions((await versionsOf(job.name, directory)).slice(keep), directory);
  } catch (error) {
    request.log(`old exports in ${directory} could not be removed: ${describeError(error)}`);
  }
  return path;
}

/** Throws if the job cannot be exported. Called before training, so that the error does not appear days later. */
function checkServing(job: JobDefinition, trained: Graph, log: Log): void {
  const { graph, warnings } = buildServingGraph(job);
  using serving = graph;
  for (const warning of warnings) log(warning, 'warn');
  const keys = new Set(namedVariables(trained, undefined).map(({ key }) => key));
  const shared = namedVariables(serving, undefined).filter(({ key }) => keys.has(key));
  trainedVariables(shared, trained);
}

export interface JobExportsOptions {
  readonly session: TrainingRunner & { readonly server?: Server };
  /** The task's own directory. */
  readonly dir: string;
  /** Prevents exports during recoveries. */
  readonly recoveryGuard: RecoveryGuard;
  readonly signal?: AbortSignal;
  readonly log: Log;
}

/** The exports of the chief, or of a process without a cluster. */
export class JobExports {
  readonly #job: JobDefinition;
  readonly #options: ExportOptions;
  readonly #training: JobExportsOptions;
  readonly #schedule: ScheduledWork;
  readonly #directory: string;
  readonly #publishing: JobPublishing | undefined;
  #step = 0;
  /** The global step when this process started. */
  #first: number | undefined;
  /** The last export of this process. */
  #last: { readonly step: number; readonly path: string } | undefined;

  constructor(job: JobDefinition, options: ExportOptions, training: JobExportsOptions) {
    this.#job = job;
    this.#options = options;
    this.#training = training;
    this.#directory = exportsIn(training.dir, options.directory);
    const { everySecs, everySteps } = options;
    this.#schedule = new ScheduledWork(new SaveSchedule(every({ secs: everySecs, steps: everySteps })), () =>
      this.#exportOrLog(),
    );
    checkServing(job, training.session.graph, training.log);
    const { session, log } = training;
    if (options.publish !== undefined)
      this.#publishing = new JobPublishing(options.publish, {
        log,
        task: session.server?.task.task,
        onState: (change) => session.server?.metrics.emit({ type: 'published', ...change }),
      });
  }

  begin(step: number): void {
    this.#first = step;
    this.#step = step;
    this.#schedule.begin(step);
    if (this.#publishing) void this.#offerFormer(this.#publishing);
  }

  /** What an earlier process of the job has exported may not have reached all serving processes. */
  async #offerFormer(publishing: JobPublishing): Promise<void> {
    try {
      const [newest] = await versionsOf(this.#job.name, this.#directory);
      if (newest && !this.#last) publishing.offer(newest.path, newest.origin.step);
    } catch (error) {
      this.#training.log(`earlier exports cannot be listed: ${messageOf(error)}`, 'warn');
    }
  }

  /** Reports the global step. */
  onStep(step: number): void {
    this.#step = step;
    // The last step is exported at the end.
    if (step < this.#job.train.lastStep) this.#schedule.onStep(step);
  }

  /** Makes the last export; undefined if it was interrupted. Throws on failure: the export is the result of the job. */
  async end({ step, interrupted }: LoopResult): Promise<string | undefined> {
    await this.#schedule.stop();
    if (interrupted) return undefined;
    this.#step = await this.#lastStep(step);
    // On a cluster other workers may have made steps while the last periodic export was written.
    if (!this.#training.session.server && this.#last?.step === step) return this.#last.path;
    const [newest] = await versionsOf(this.#job.name, this.#directory);
    if (this.#first === this.#step && newest?.origin.step === this.#step) {
      this.#training.log(`the model of step ${this.#step} is exported already: ${newest.path}`);
      this.#publishing?.offer(newest.path, this.#step);
      return newest.path;
    }
    try {
      return await this.#export();
    } catch (error) {
      if (!this.#training.signal?.aborted) throw error;
      this.#training.log('stopped before the model was exported: restart the job to export it');
      return undefined;
    }
  }

  /** Waits, for a while, until the last export is published. */
  async published(signal: AbortSignal): Promise<void> {
    await this.#publishing?.finish(signal);
  }

  /** Stops to publish. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#publishing?.[Symbol.asyncDispose]();
  }

  /** Ends without a last export. */
  stop(): Promise<void> {
    return this.#schedule.stop();
  }

  /** The global step after training. The last steps may be those of other workers. */
  async #lastStep(seen: number): Promise<number> {
    const { session } = this.#training;
    if (!session.server) return seen;
    return (await readGlobalStep(session, { timeoutMs: READ_STEP_MS })) ?? seen;
  }

  async #exportOrLog(): Promise<void> {
    const { session, recoveryGuard, log } = this.#training;
    // In one process training may wait, for an evaluation.
    const isExported = !session.server && this.#last?.step === this.#step;
    if (!recoveryGuard.isStable || isExported) return;
    try {
      await this.#export();
    } catch (error) {
      log(
        recoveryGuard.isStable
          ? `exporting the model failed: ${messageOf(error)}; training continues${hintLineOf(error)}`
          : 'the export was cancelled: the cluster is being recovered',
        recoveryGuard.isStable ? 'error' : 'warn',
      );
    }
  }

  async #export(): Promise<string> {
    const { session, recoveryGuard, signal, log } = this.#training;
    const begun = performance.now();
    const step = this.#step;
    const trained = session.graph;
    const source = session.server
      ? clusterVariables(session.server, { trained })
      : sessionVariables(session, { trained });
    const keep = this.#options.latest ?? KEEP;
    const path = await recoveryGuard.during(
      'An export',
      (lost) =>
        exportVersion(this.#job, this.#directory, keep, { source, origin: { step }, signal: lost, log }),
      signal,
    );
    const ms = performance.now() - begun;
    this.#last = { step, path };
    session.server?.metrics.emit({ type: 'exported', step, path, ms });
    this.#publishing?.offer(path, step);
    log(`exported step ${step} to ${path} in ${(ms / 1000).toFixed(1)} s`, 'info', {
      event: 'export',
      step,
      version: basename(path),
      path,
    });
    return path;
  }
}

/** The exports of the evaluator: checkpoints that are better than all exported versions. */
export class BestExports {
  readonly #job: JobDefinition;
  readonly #policy: BestPolicy;
  readonly #session: TrainingRunner;
  readonly #directory: string;
  readonly #log: Log;

  constructor(
    job: JobDefinition,
    policy: BestPolicy,
    training: Pick<JobExportsOptions, 'session' | 'dir' | 'log'>,
  ) {
    this.#job = job;
    this.#policy = policy;
    this.#session = training.session;
    this.#directory = join(exportsIn(training.dir, job.export?.directory), BEST_EXPORTS);
    this.#log = training.log;
    checkServing(job, training.session.graph, training.log);
  }

  /** Exports the state of the session if it is better. A failure is only logged: evaluation continues. */
  async consider(results: Results, step: number): Promise<void> {
    const { metric, mode, minDelta, keep = 1 } = this.#policy;
    const value = results[metric];
    if (value === undefined) {
      throw invalid(
        `export.best of job '${this.#job.name}' names the metric '${metric}', but the metrics are ${Object.keys(results).join(', ')}`,
      );
    }
    try {
      const known = (await versionsOf(this.#job.name, this.#directory)).flatMap(({ origin }) =>
        origin.metric?.name === metric ? [origin.metric.value] : [],
      );
      if (!Number.isFinite(value) || known.some((other) => !isBetter(value, other, mode, minDelta))) return;
      const path = await exportVersion(this.#job, this.#directory, keep, {
        source: sessionVariables(this.#session, { trained: this.#session.graph }),
        origin: { step, metric: { name: metric, value } },
        log: this.#log,
      });
      this.#log(`new best ${metric}: ${value} at step ${step}; exported to ${path}`, 'info', {
        event: 'export',
        step,
        version: basename(path),
        path,
        metric: { name: metric, value },
      });
    } catch (error) {
      if (isShoalError(error, 'SHOAL_INVALID_ARGUMENT')) throw error;
      this.#log(
        `exporting the best checkpoint failed: ${messageOf(error)}; evaluation continues${hintLineOf(error)}`,
        'error',
      );
    }
  }
}
