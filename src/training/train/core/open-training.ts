/**
 * Opens training for a task, on a cluster or in this process: the session, the input, the values of variables (the
 * chief restores the newest checkpoint or initializes them, other tasks wait), recovery after a loss, and the hooks.
 * Jobs, monitored sessions and supervisors are built on it.
 */
import type { MessageInitShape } from '@bufbuild/protobuf';
import { create } from '@bufbuild/protobuf';
import { abortError } from '../../../base/async/deadline.js';
import { serialQueue } from '../../../base/async/serial-queue.js';
import { describeError, invalid } from '../../../base/errors/errors.js';
import type { Names } from '../../../base/errors/option-names.js';
import { ConfigProtoSchema } from '../../../base/proto/generated/config_pb.js';
import { checkGatherMode, type GatherMode } from '../../../distributed/checkpoint/directory/gather.js';
import type { PauseControl } from '../../../distributed/checkpoint/protocol/save.js';
import type { Fetches } from '../../../tensorflow/session/fetches.js';
import type { RunOptions } from '../../../tensorflow/session/runner.js';
import { Session } from '../../../tensorflow/session/session.js';
import { GraphKeys } from '../../../tensorflow/variables/collections.js';
import { type Counted, globalStepOf } from '../../../tensorflow/variables/global-step.js';
import { InputRelease } from '../../input/dataset/release.js';
import { isVoidStep } from '../../input/leases/step-marks.js';
import { waitForLastSteps } from '../checkpoints/retrying-saver.js';
import { applyWarmStarts } from '../checkpoints/warm-start.js';
import type { SessionRunHook } from '../hooks/session-run-hook.js';
import { Feeders } from '../leases/feeders.js';
import { LeasedInput } from '../leases/leased-input.js';
import { ChiefWatch } from '../recovery/chief-watch.js';
import type { Coordinator } from '../recovery/coordinator.js';
import {
  isRecoverable,
  type RecoverableOptions,
  RecoverableSession,
} from '../recovery/recoverable-session.js';
import { RecoveryGuard } from '../recovery/recovery-guard.js';
import { partialRefused, type RecoveryMode } from '../recovery/recovery-mode.js';
import {
  describeRecovery,
  describeRestored,
  type RecoveryEvent,
  RecoveryReport,
} from '../recovery/recovery-report.js';
import { ReplacedVariables, type ReplacedVariablesOptions } from '../recovery/replaced-variables.js';
import { FallingStepWatch } from '../recovery/steps/falling-step-watch.js';
import type { StepGate } from '../recovery/steps/step-gate.js';
import { Gathering } from '../task/gathering.js';
import type { Server } from '../task/server.js';
import { countBefore, StepWatch } from '../task/step-watch.js';
import type { TrainingRunner } from '../task/training-runner.js';
import { persist } from './hooked-run.js';

export interface PlaceOptions {
  /** This task's server in the cluster; default: none, everything runs in this process. */
  readonly server?: Server;
  /** The address of a TensorFlow server to run on, for programs without a Shoal cluster; default: none. */
  readonly master?: string;
  /** TensorFlow's configuration of the session; default: TensorFlow's own defaults. */
  readonly config?: MessageInitShape<typeof ConfigProtoSchema>;
  /** How long to wait for the other tasks, at the start and after a loss; default: 7200. */
  readonly maxWaitSecs?: number;
  /** The limit of one step: when it is reached the step is abandoned and the cluster is checked; default: 600. */
  readonly stepTimeoutSecs?: number;
  /**
   * After the loss of a ps: `exact` restores all ps from the newest checkpoint, `partial` only the lost one, not with
   * leased input or synchronous training. Default: exact.
   */
  readonly recovery?: RecoveryMode;
  /**
   * Which checkpoints become complete in the chief's directory, with the data files from the disks of the other tasks:
   * the `last` one at the end of training, `all` of them after each save, or `none`. Default: that of the saver, `last`.
   */
  readonly gather?: GatherMode;
  /**
   * Called on every task that trains when training continues after the loss of a task; it waits for the promise. An
   * error fails training. Default: none.
   */
  readonly onRecovery?: (event: RecoveryEvent) => void | Promise<void>;
  /** Where steps pause for a consistent snapshot; default: the server's. @internal */
  readonly gate?: StepGate;
  /**
   * Called before the first wait, to start services that must respond during it. The result is disposed at the end.
   * Default: none.
   */
  readonly onOpen?: (place: TrainingPlace) => Disposable | AsyncDisposable | undefined;
}

/** All of them but the place itself, which a supervisor takes elsewhere: a misspelt one is an error. */
export const PLACE_OPTIONS: Names<Omit<PlaceOptions, 'server' | 'master'>> = {
  config: true,
  maxWaitSecs: true,
  stepTimeoutSecs: true,
  recovery: true,
  gather: true,
  onRecovery: true,
  gate: true,
  onOpen: true,
};

export interface TrainingPlace {
  /** The underlying session: its runs do not recover, and are not training steps. */
  readonly runner: TrainingRunner;
  /** @internal */
  readonly gate: StepGate | undefined;
  readonly server: Server | undefined;
  readonly isChief: boolean;
}

/** How variables get their values. */
export type TrainingValues = Pick<
  RecoverableOptions,
  'restore' | 'initialize' | 'newestStep' | 'localInit' | 'readyOp' | 'readyForLocalInitOp'
>;

export interface OpenTrainingOptions extends Omit<PlaceOptions, 'maxWaitSecs' | 'stepTimeoutSecs'>, Counted {
  readonly isChief: boolean;
  readonly hooks?: readonly SessionRunHook[];
  /** Passed to the hooks; stopped when a source of records fails. */
  readonly coordinator: Coordinator;
  readonly values: (runner: TrainingRunner) => TrainingValues;
  /** Default: 300 s. */
  readonly maxWaitMs?: number;
  /** Default: derived from the durations of recent steps. */
  readonly stepMs?: number;
  /** The minimum of the derived limit; default: 60 s. */
  readonly stepFloorMs?: number;
  /** Whether the chief saves checkpoints; default: false. */
  readonly savesCheckpoints?: boolean;
  /** Whether a step needs all workers, not only the ps; default: true. */
  readonly needsWorkers?: boolean;
  /** Cancels runs and waits. */
  readonly signal: AbortSignal;
  /** Aborted earlier, or at the same time: no step begins any more. Default: `signal`. */
  readonly stop?: AbortSignal;
  readonly log: (line: string) => void;
  /** Called when all variables have values, before the hooks: at the start, and `again` after each recovery. */
  readonly onReady?: (again: boolean) => Promise<void> | void;
}

export interface OpenedTraining extends TrainingPlace, AsyncDisposable {
  readonly session: RecoverableSession;
  /** Runs that ignore pauses and do not wait for readiness, but survive the loss of a ps: for the input. */
  readonly background: TrainingRunner;
  /**
   * Runs that read the variables between two steps: for exports. On a cluster it is the runner, because exports pause
   * the workers themselves.
   */
  readonly betweenSteps: TrainingRunner;
  /** For saves, which pause the steps from the read of the global step to the snapshot of variables and input. */
  readonly saving: TrainingRunner;
  readonly recoveryGuard: RecoveryGuard;
  readonly leased: LeasedInput | undefined;
  /** The chief of synchronous training makes the steps of the others possible: waits for their last ones, or a stop. */
  outlast(stop: AbortSignal | undefined): Promise<void>;
  /** Completes the last checkpoint on the disk of the chief. With a signal that has fired it logs how to do that later. */
  gather(signal: AbortSignal): Promise<void>;
  /**
   * Reports that this task makes no more steps. With `stay` it waits for the work of other tasks (see LastSteps). From
   * then on the process runs only as long as it has other work.
   */
  finish(options: {
    readonly stay: boolean;
    readonly signal?: AbortSignal | undefined;
    /** Whether training failed, or its last steps could not be saved; default: false. */
    readonly failed?: boolean;
  }): Promise<void>;
}

/** How long failed steps may take to end, once their input has been stopped. */
const SETTLE_MS = 5000;
const READ_MS = 30_000;

export async function openTraining(options: OpenTrainingOptions): Promise<OpenedTraining> {
  const { graph, server, isChief, hooks = [], coordinator, signal, log, recovery: mode = 'exact' } = options;
  checkGatherMode(options.gather, 'gather');
  if (mode === 'partial') checkPartial(options);
  const metrics = server?.metrics;
  const recoveryGuard = new RecoveryGuard();
  const inputRelease = new InputRelease(graph);
  const recoveryReport =
    server &&
    new RecoveryReport({
      task: server.task,
      mode,
      onLostSteps: (steps) => server.metrics.repeatedSteps.add(steps),
      onPhases: (phases) => server.metrics.recovered(mode, phases),
    });
  const gathering = new Gathering(options.gather, options.stop ?? signal);
  const opened = await openRunner(options, recoveryGuard, inputRelease);
  const { allThere } = opened;
  // TensorFlow's own engine cannot end a step that is running.
  const endsSteps = server?.engine.kind === 'direct';
  const recover = (error: unknown) => session.recoverBeside(error, { endsSteps });
  const plain: TrainingRunner = {
    ...opened.runner,
    gathering,
    ...(recoveryReport && { recoveryReport, recover }),
  };
  const close = async () => {
    recoveryReport?.close();
    await opened.close();
  };
  const stepAlarm = isChief ? server?.checkpoints.stepAlarm : undefined;
  const fellBefore = stepAlarm?.error !== undefined;
  stepAlarm?.clear();
  const gate = options.gate ?? server?.checkpoints.gate;
  const leased = await openLeases(options, plain, recoveryGuard, gate).catch(closing(close));
  const onError = (error: unknown) => coordinator.requestStop(error);
  const feeders = Feeders.of(plain, { log, onError });
  const runner: TrainingRunner = leased ? { ...plain, input: leased.checkpointed } : plain;
  const place: TrainingPlace = { runner, gate, server, isChief };
  const { restore: restoreNow, initialize, ...values } = options.values(runner);
  const restore: TrainingValues['restore'] =
    restoreNow &&
    (async (missing, again) => {
      await countBefore(runner, missing);
      return restoreNow(missing, again);
    });
  const stepWatch = server && new StepWatch(runner, server);
  const session = new RecoverableSession({
    runner,
    graph,
    globalStep: runner.globalStep,
    isChief,
    signal,
    stop: options.stop,
    log,
    recoveryMs: options.maxWaitMs,
    // A step in this process depends on no task that could be lost.
    stepMs: server ? options.stepMs : Number.POSITIVE_INFINITY,
    stepFloorMs: options.stepFloorMs,
    lostPs: server && (() => server.lostPs()),
    isComplete: () => server?.isComplete({ workers: options.needsWorkers ?? true }) ?? true,
    isRecoverable: server ? (error) => isRecoverable(error) || isVoidStep(error) : () => false,
    isAlone: !server,
    isPartial: mode === 'partial',
    ...(server && allThere && { replaced: replacedVariables(server, allThere) }),
    gate,
    onStepTime:
      metrics &&
      ((ms) => {
        metrics.steps.observe(ms / 1000);
        stepWatch?.made();
      }),
    onRecovered:
      recoveryReport &&
      (async (ms) => {
        const step = options.onRecovery ? await readStep(runner) : 0;
        const recovery = recoveryReport.end(ms);
        log(describeRecovery(recovery));
        await options.onRecovery?.({ ...recovery, step });
      }),
    ...values,
    ...(leased?.values({ restore, initialize }) ?? { restore, initialize }),
    warmStart: () => applyWarmStarts(runner, { signal, log }),
    ...(stepAlarm && {
      onValues: () => stepAlarm.reset(),
      hasFallen: async () => fellBefore || (await stepAlarm.isRaisedElsewhere()),
      onFirstReady: () => stepAlarm.clearElsewhere(),
    }),
    inputReleases: inputRelease.times,
    onLost: async () => {
      recoveryReport?.begin();
      await recoveryGuard.suspend(log);
      await leased?.quiet();
      await feeders?.stop();
      await server?.engine
        .settled({ timeoutMs: SETTLE_MS })
        .catch((error: unknown) => log(describeError(error)));
    },
    onReady: async (again) => {
      await leased?.ready();
      await feeders?.begin();
      recoveryGuard.resume();
      const restored = again ? undefined : recoveryReport?.started();
      if (restored) log(`others were training: ${describeRestored(restored)}`);
      void server?.finished.reportBegun();
      await options.onReady?.(again);
      for (const hook of hooks) await hook.afterCreateSession?.(runner, coordinator);
    },
  });
  const chiefWatch =
    server && !isChief && options.savesCheckpoints
      ? new ChiefWatch({ task: server.task, finished: server.finished, log })
      : undefined;
  const globalStep = globalStepOf(runner);
  const fallingStepWatch =
    stepAlarm &&
    globalStep &&
    new FallingStepWatch({
      alarm: stepAlarm,
      runner,
      globalStep,
      recoveryGuard,
      lostPs: () => server?.lostPs() ?? [],
      onFall: onError,
    });
  const services = options.onOpen?.(place);
  await server?.checkpoints.lastSteps.begin().catch(
    closing(async () => {
      fallingStepWatch?.[Symbol.dispose]();
      chiefWatch?.[Symbol.dispose]();
      await close();
    }),
  );
  // Paused steps wait only for a message, which does not keep the process alive.
  const release = server?.keepProcess();
  return {
    ...place,
    session,
    recoveryGuard,
    leased,
    background: { ...runner, run: persistent(runner, session) },
    ...(server || !gate ? { betweenSteps: runner, saving: runner } : betweenSteps(runner, gate)),
    async outlast(stop) {
      if (server?.checkpoints.lastSteps.leads) await waitForLastSteps(runner, { signal: stop, log });
    },
    async gather(stop) {
      if (isChief) await gathering.end(stop);
    },
    async finish({ stay, signal: stop, failed = false }) {
      try {
        // Before the other tasks may leave.
        if (stay && isChief) await gathering.end(stop);
        await server?.checkpoints.lastSteps.finish({ stay, signal: stop, log });
        if (failed) await server?.finished.reportStopped('failed');
      } finally {
        fallingStepWatch?.[Symbol.dispose]();
        gathering[Symbol.dispose]();
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
        fallingStepWatch?.[Symbol.dispose]();
        chiefWatch?.[Symbol.dispose]();
        await close();
        release?.();
      }
    },
  };
}

function checkPartial({ graph, hooks = [] }: OpenTrainingOptions): void {
  if (hooks.some(({ shards }) => shards !== undefined)) {
    throw partialRefused(
      'Training with leased input',
      'its ledger would match neither the restored ps nor the others, so records would be lost or used twice',
    );
  }
  if (graph.getCollection(GraphKeys.resetOps).length > 0)
    throw partialRefused('Synchronous training', 'the ps would be at different steps');
}

/** Opens the leased input of the hook that has one. */
async function openLeases(
  { hooks = [], isChief, signal, log }: OpenTrainingOptions,
  runner: TrainingRunner,
  recoveryGuard: RecoveryGuard,
  gate: StepGate | undefined,
): Promise<LeasedInput | undefined> {
  const [hook, ...others] = hooks.filter(({ shards }) => shards !== undefined);
  if (others.length > 0)
    throw invalid('A session can have only one ShardsHook: its checkpoints contain one ledger');
  if (!hook?.shards) return undefined;
  const { shards, slots = 1 } = hook;
  const leased = await LeasedInput.open({ shards, runner, isChief, slots, recoveryGuard, gate, signal, log });
  hook.inputOpened?.(leased);
  return leased;
}

async function readStep(runner: TrainingRunner): Promise<number> {
  const globalStep = globalStepOf(runner);
  return globalStep ? (await runner.run(globalStep.toOutput(), { timeoutMs: READ_MS })).number() : 0;
}

const closing = (close: () => Promise<void>) => async (error: unknown) => {
  await close();
  throw error;
};

interface OpenedRunner {
  readonly runner: TrainingRunner;
  /** Resolves when all ps are there; undefined without a cluster. */
  readonly allThere?: ReplacedVariablesOptions['allThere'];
  readonly close: () => Promise<void>;
}

const replacedVariables = (
  { task, psTasks, checkpoints }: Server,
  allThere: ReplacedVariablesOptions['allThere'],
): ReplacedVariables =>
  new ReplacedVariables({
    ps: () => psTasks.flatMap((id) => task.member(id) ?? []),
    ownerOf: (device) => checkpoints.ownerOf(device),
    allThere,
  });

async function openRunner(
  options: OpenTrainingOptions,
  recoveryGuard: RecoveryGuard,
  { beforeClose }: InputRelease,
): Promise<OpenedRunner> {
  const { graph, server, master, config, maxWaitMs, signal, log } = options;
  const globalStep = globalStepOf(options);
  if (server) {
    const session = server.session(graph, {
      ...(maxWaitMs === undefined ? {} : { waitMs: maxWaitMs }),
      onProgress: log,
      keepsProcess: false,
      // A direct session ends nothing: the input continues when a ps is replaced between two steps.
      ...(server.engine.keepsObjects ? {} : { beforeClose }),
      ...(config ? { config: create(ConfigProtoSchema, config) } : {}),
    });
    const run: TrainingRunner['run'] = (fetches, runOptions) => session.run(fetches, runOptions);
    const now = () => session.now();
    const endRuns = (why: string) => session.renew(why);
    return {
      runner: {
        graph,
        globalStep,
        server,
        recoveryGuard,
        run,
        now,
        ...(server.engine.kind === 'grpc' && { endRuns }),
      },
      allThere: (runSignal) => session.current(runSignal),
      close: () => session.close(),
    };
  }
  const session = await Session.create({
    graph,
    signal,
    ...(master ? { target: master } : {}),
    ...(config ? { config } : {}),
  });
  const run: TrainingRunner['run'] = (fetches, runOptions) => session.run(fetches, runOptions);
  return { runner: { graph, globalStep, run }, close: () => session.close({ timeoutMs: 30_000 }) };
}

function persistent(runner: TrainingRunner, session: RecoverableSession): TrainingRunner['run'] {
  return <const F extends Fetches>(fetches: F, options: RunOptions = {}) =>
    persist(session, () => runner.run(fetches, options), options);
}

/** Longer than any step. */
const PAUSE_MS = 24 * 60 * 60_000;
const THIS_PROCESS = 'this process';

/** Runs and saves without a cluster: one at a time, while no step is in flight. */
function betweenSteps(runner: TrainingRunner, gate: StepGate) {
  const inTurn = serialQueue();
  const run: TrainingRunner['run'] = (fetches, options) =>
    inTurn(async () => {
      await gate.pause({ leaseMs: PAUSE_MS });
      try {
        return await runner.run(fetches, options);
      } finally {
        gate.resume();
      }
    });
  let resume = () => {};
  const pauseControl: PauseControl = {
    workers: () => [THIS_PROCESS],
    pauseTimeoutMs: () => PAUSE_MS,
    pause: (_, { leaseMs, signal }) =>
      new Promise((resolve, reject) => {
        const pause = async () => {
          if (signal.aborted) throw abortError('A save', signal);
          const over = new Promise<'over'>((end) => {
            resume = () => end('over');
            signal.addEventListener('abort', () => end('over'), { once: true });
          });
          try {
            const isOver = (await Promise.race([gate.pause({ leaseMs }), over])) === 'over';
            if (isOver) throw abortError('A save', signal);
            resolve();
            await over;
          } finally {
            gate.resume();
          }
        };
        inTurn(pause).catch(reject);
      }),
    resume: async () => resume(),
  };
  return { betweenSteps: { ...runner, run }, saving: { ...runner, pauseControl } };
}
