/**
 * A session for training, over a cluster or in this process, whose variables come to have values by themselves: the
 * chief restores the newest checkpoint or gives first values, the others wait. What monitored sessions and
 * supervisors stand on.
 */
import type { MessageInitShape } from '@bufbuild/protobuf';
import { create } from '@bufbuild/protobuf';
import type { Server } from '../../cluster/runtime/server.js';
import type { Graph } from '../../graph/graph.js';
import { InputRelease } from '../../input/dataset/release.js';
import { isVoidStep } from '../../input/leases/step-marks.js';
import { ConfigProtoSchema } from '../../proto/generated/config_pb.js';
import type { Fetches } from '../../session/fetches.js';
import { type RunOptions, Session } from '../../session/session.js';
import type { Variable } from '../../variables/variable.js';
import { checkpointServiceOf } from '../checkpoints/checkpoint-service.js';
import { applyWarmStarts } from '../checkpoints/warm-start.js';
import { Feeders } from '../leases/feeders.js';
import { LeasedInput } from '../leases/leased-input.js';
import type { ShardParts } from '../leases/shard-parts.js';
import { isRecoverable, RecoverableSession } from '../recovery/recoverable-session.js';
import { RecoveryGuard } from '../recovery/recovery-guard.js';
import { StepGate } from '../recovery/step-gate.js';
import type { TrainingRunner } from '../recovery/training-runner.js';
import type { Scaffold } from './scaffold.js';

export interface PlaceOptions {
  /** This task's server in the cluster; none: all in this process. */
  readonly server?: Server | undefined;
  /** The address of a TensorFlow server to run on, where there is no cluster of Shoal's. */
  readonly master?: string | undefined;
  readonly config?: MessageInitShape<typeof ConfigProtoSchema>;
  /** How long the others may take to be there and to give values, at the start and after a loss. */
  readonly maxWaitSecs?: number;
  /** How long one step may take before it is given up and the cluster is looked at. */
  readonly stepTimeoutSecs?: number;
  /** Where steps rest for a cut; on a cluster that of the server when none is given. */
  readonly gate?: StepGate;
  /** Called before the first wait, for services that answer orders meanwhile. What it gives is disposed at the end. */
  readonly onOpen?: (place: TrainingPlace) => Disposable | AsyncDisposable | undefined;
}

export interface TrainingPlace {
  /** The session itself: its runs do not recover, and are no training steps. */
  readonly runner: TrainingRunner;
  readonly gate: StepGate | undefined;
  readonly server: Server | undefined;
  readonly isChief: boolean;
}

export interface OpenTrainingOptions extends PlaceOptions {
  readonly graph: Graph;
  readonly isChief: boolean;
  readonly scaffold: Scaffold;
  readonly checkpointDir?: string | undefined;
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
  /** Where the input is leased. */
  readonly shards?: ShardParts | undefined;
  readonly onReady: (place: TrainingPlace, again: boolean) => Promise<void> | void;
  /** A source of records has failed, which ends training. */
  readonly onInputError: (error: unknown) => void;
}

export interface OpenedTraining extends TrainingPlace, AsyncDisposable {
  readonly session: RecoverableSession;
  /** Runs that no park holds and no readiness delays, but which survive the loss of a ps: for the input. */
  readonly background: TrainingRunner;
  readonly leased: LeasedInput | undefined;
  /**
   * This task makes no more steps: reports it, and may stay for what others still do (see LastSteps). From then on the
   * process runs only as long as it has other work.
   */
  finish(options: { readonly stay: boolean; readonly signal?: AbortSignal | undefined }): Promise<void>;
}

export async function openTraining(options: OpenTrainingOptions): Promise<OpenedTraining> {
  const { graph, server, isChief, scaffold, shards, signal, log, onReady } = options;
  const { maxWaitSecs = 7200, stepTimeoutSecs = 600 } = options;
  const recoveryGuard = new RecoveryGuard();
  const inputRelease = new InputRelease(graph);
  const { runner: plain, close } = await openRunner(options, recoveryGuard, inputRelease);
  const leased = shards && (await leasing(options, shards, plain, recoveryGuard).catch(closing(close)));
  const feeders = Feeders.of(plain, { log, onError: options.onInputError });
  const runner: TrainingRunner = leased ? { ...plain, input: leased.checkpointed } : plain;
  const gate = options.gate ?? (server && (checkpointServiceOf(server)?.gate ?? new StepGate()));
  const place: TrainingPlace = { runner, gate, server, isChief };
  const { localInit, ...initialize } = initializers(scaffold, runner);
  const warmStart = () => applyWarmStarts(runner, { signal, log });
  const values = { restore: restorer(options, runner), ...initialize };
  const session = new RecoverableSession({
    runner,
    graph,
    isChief,
    signal,
    log,
    recoveryMs: maxWaitSecs * 1000,
    // A step in this process waits for nobody who could be lost.
    stepMs: server ? stepTimeoutSecs * 1000 : Number.POSITIVE_INFINITY,
    isComplete: () => server?.isComplete() ?? true,
    isRecoverable: server ? (error) => isRecoverable(error) || isVoidStep(error) : () => false,
    ...(gate ? { gate } : {}),
    ...(leased?.values(values) ?? values),
    localInit,
    warmStart,
    readyForLocalInitOp: scaffold.readyForLocalInitOp,
    readyOp: scaffold.readyOp,
    inputReleases: inputRelease.times,
    onLost: async () => {
      await recoveryGuard.suspend(log);
      await leased?.quiet();
      await feeders?.stop();
    },
    onReady: async (again) => {
      await leased?.ready();
      await feeders?.begin();
      recoveryGuard.resume();
      await onReady(place, again);
    },
  });
  const services = options.onOpen?.(place);
  const lastSteps = server && checkpointServiceOf(server)?.lastSteps;
  await lastSteps?.begin();
  // Steps that pause for a checkpoint wait for a message alone, which keeps no process running.
  const release = server?.keepProcess();
  return {
    ...place,
    session,
    leased,
    background: { ...place.runner, run: persistent(runner, session) },
    async finish({ stay, signal: stop }) {
      try {
        await lastSteps?.finish({ stay, signal: stop, log });
      } finally {
        release?.();
      }
    },
    async [Symbol.asyncDispose]() {
      try {
        if (services && Symbol.asyncDispose in services) await services[Symbol.asyncDispose]();
        else services?.[Symbol.dispose]();
        leased?.stop();
        await feeders?.stop();
        await leased?.[Symbol.asyncDispose]();
      } finally {
        await close();
        release?.();
      }
    },
  };
}

const leasing = (
  { isChief, signal, log }: OpenTrainingOptions,
  shards: ShardParts,
  runner: TrainingRunner,
  recoveryGuard: RecoveryGuard,
): Promise<LeasedInput> =>
  LeasedInput.open({ shards, runner, isChief, lanes: 1, recoveryGuard, signal, log });

const closing = (close: () => Promise<void>) => async (error: unknown) => {
  await close();
  throw error;
};

async function openRunner(
  options: OpenTrainingOptions,
  recoveryGuard: RecoveryGuard,
  { beforeClose }: InputRelease,
): Promise<{ runner: TrainingRunner; close: () => Promise<void> }> {
  const { graph, server, master, config, maxWaitSecs = 7200, signal, log } = options;
  if (server) {
    const session = server.session(graph, {
      waitMs: maxWaitSecs * 1000,
      onProgress: log,
      keepsProcess: false,
      beforeClose,
      ...(config ? { config: create(ConfigProtoSchema, config) } : {}),
    });
    const run: TrainingRunner['run'] = (fetches, runOptions) => session.run(fetches, runOptions);
    const now = () => session.now();
    return { runner: { graph, server, recoveryGuard, run, now }, close: () => session.close() };
  }
  const session = await Session.create({
    graph,
    signal,
    ...(master ? { target: master } : {}),
    ...(config ? { config } : {}),
  });
  const run: TrainingRunner['run'] = (fetches, runOptions) => session.run(fetches, runOptions);
  return { runner: { graph, run }, close: () => session.close({ timeoutMs: 30_000 }) };
}

/** The newest checkpoint, where there is one. That it can't be read is an error, never a fresh start. */
function restorer({ scaffold, checkpointDir, signal, log }: OpenTrainingOptions, runner: TrainingRunner) {
  return async (missing: readonly Variable[], again: boolean): Promise<boolean> => {
    const { saver } = scaffold;
    if (!saver || checkpointDir === undefined) return false;
    const path = await saver.latest(runner, checkpointDir, { signal });
    if (path === undefined) return false;
    log(`restoring ${path}${again && missing.length > 0 ? `: ${missing.length} variables were lost` : ''}`);
    const report = await (saver.restoreNewest
      ? saver.restoreNewest(runner, checkpointDir, { signal, missing })
      : saver.restore(runner, path, { signal, missing }));
    if (saver.restoreNewest && !report) return false;
    runner.input?.restored((report as { input?: unknown } | undefined)?.input);
    return true;
  };
}

function initializers(scaffold: Scaffold, runner: TrainingRunner) {
  const { initOp, initFn, initFeedDict, localInitOp, localInitFeedDict } = scaffold;
  const feeding = (feeds: RunOptions['feeds']): RunOptions => (feeds ? { feeds } : {});
  const initialize = async (missing: readonly Variable[]) => {
    await runner.run(initOp ?? missing.map(({ initializer }) => initializer), feeding(initFeedDict));
    await initFn?.(scaffold, runner);
  };
  const localInit = async () => {
    if (localInitOp) await runner.run(localInitOp, feeding(localInitFeedDict));
  };
  return { ...(initOp || initFn || initFeedDict ? { initialize } : {}), localInit };
}

function persistent(runner: TrainingRunner, session: RecoverableSession): TrainingRunner['run'] {
  return async <const F extends Fetches>(fetches: F, options: RunOptions = {}) => {
    for (;;) {
      try {
        return await runner.run(fetches, options);
      } catch (error) {
        await session.recover(error, options);
      }
    }
  };
}
