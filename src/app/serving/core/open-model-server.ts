/** A model server over directories: the manager of versions, the limits of runs, batching, and what is measured. */
import { availableParallelism } from 'node:os';
import { clone, create } from '@bufbuild/protobuf';
import {
  type ConfigProto,
  ConfigProto_ExperimentalSchema,
  ConfigProtoSchema,
} from '../../../base/proto/generated/config_pb.js';
import type { Log } from '../../../base/text/log.js';
import type { LoadOptions } from '../../../training/saved-model/loading/open-model.js';
import type { BatchingConfig } from '../config/config-files.js';
import type { ModelConfig } from '../config/model-config.js';
import { ServingMetrics } from '../metrics/serving-metrics.js';
import { ModelManager } from '../models/manager.js';
import { Servable } from '../models/servable.js';
import { warmUpServable } from '../models/warm-up.js';
import { Batcher, type BatchRun } from '../runs/batcher.js';
import { RunGate } from '../runs/run-gate.js';
import { ModelServer, type RunSignature } from './model-server.js';

export interface ModelServerSettings {
  readonly models: readonly ModelConfig[];
  readonly log: Log;
  /** The tags of the graphs to load; default: `['serve']`. */
  readonly tags?: readonly string[];
  /** How often base paths are looked at; 0: once; below 0: never. Default: 1 s. */
  readonly pollMs?: number;
  /** How long requests on an old version may still run; default: 60 s. */
  readonly drainMs?: number;
  /** Runs at a time without batching; default: twice the number of cores, at least 8. */
  readonly maxRuns?: number;
  /** Requests that wait for a run; default: 1000. */
  readonly maxQueued?: number;
  readonly allowLabelsOfUnavailable?: boolean;
  /** Requests that share a run wait and are bounded as this says; default: no batching. */
  readonly batching?: BatchingConfig;
  /** How often each warm-up request of a version is run; 0: no warm-up. Default: once. */
  readonly warmUps?: number;
  readonly checksMethodNames?: boolean;
  /** The configuration of the sessions; default: TensorFlow's, with threads that sleep when they have no work. */
  readonly session?: LoadOptions['config'];
}

const DEFAULTS = {
  tags: ['serve'],
  pollMs: 1000,
  maxRuns: Math.max(8, 2 * availableParallelism()),
  maxQueued: 1000,
} as const;

/**
 * A thread that looks for the next op instead of sleeping takes the core that reads the next request; with small models
 * this costs more than the ops. TensorFlow's threads are those of the first session of a process: later ones change nothing.
 */
function withoutSpinning(config: LoadOptions['config'] = {}): ConfigProto {
  const result = clone(ConfigProtoSchema, create(ConfigProtoSchema, config));
  result.experimental ??= create(ConfigProto_ExperimentalSchema, { disableThreadSpinning: true });
  return result;
}

/** Resolves when the versions that were found serve or have failed. */
export async function openModelServer(settings: ModelServerSettings): Promise<ModelServer> {
  const { models, log, drainMs, allowLabelsOfUnavailable = false, warmUps = 1, session } = settings;
  const { tags, pollMs, maxRuns, maxQueued } = { ...DEFAULTS, ...settings };
  const batcher = settings.batching && new Batcher(settings.batching);
  const metrics = new ServingMetrics();
  const gate = new RunGate({ maxRuns, maxQueued });
  const manager = new ModelManager({
    tags,
    pollMs,
    log,
    ...(drainMs === undefined ? {} : { drainMs }),
    allowLabelsOfUnavailable,
    unloaded: (model) => metrics.unload(model),
    load: async (model, version, directory, signal) => {
      const options = { tags, signal, config: withoutSpinning(session) };
      const servable = await timed(
        () => Servable.load(model, version, directory, options),
        (isDone, ms) => metrics.load(directory, isDone, ms),
      );
      if (warmUps === 0) return servable;
      try {
        const warm = () => warmUpServable(servable, { iterations: warmUps, signal });
        await timed(warm, (isDone, ms) => metrics.warmUp(directory, isDone, ms));
        return servable;
      } catch (error) {
        await servable.close(0);
        throw error;
      }
    },
  });
  metrics.readGauges({
    running: () => gate.running + (batcher?.running ?? 0),
    queued: () => gate.queued + (batcher?.queued ?? 0),
    ready: () => manager.isReady,
    versions: () => manager.versionSamples(),
  });
  const run: RunSignature = (servable, plan, values, outputs, call, api) => {
    const { model } = servable;
    const one: BatchRun = async (rows, limits) => {
      const started = performance.now();
      const results = await servable.run(plan, rows, outputs, limits);
      metrics.run(model, api, started);
      return results;
    };
    const { batches } = plan.prepared(outputs);
    if (!batcher?.takes(batches, values)) return gate.pass(() => one(values, call), call);
    return batcher.submit(batches, values, one, call, {
      batch: (rows) => metrics.batch(model, rows),
      waited: (ms) => metrics.queued(model, ms),
    });
  };
  const server = new ModelServer({
    models: manager,
    metrics,
    run,
    checksMethodNames: settings.checksMethodNames ?? false,
  });
  await manager.start(models);
  return server;
}

/** Reports how long some work took, and whether it was done. */
async function timed<T>(work: () => Promise<T>, report: (isDone: boolean, ms: number) => void): Promise<T> {
  const started = performance.now();
  let isDone = false;
  try {
    const value = await work();
    isDone = true;
    return value;
  } finally {
    report(isDone, performance.now() - started);
  }
}
