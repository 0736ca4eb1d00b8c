/**
 * Opens training for a task, on a cluster or in this process: the session, the input, the values of variables (the
 * chief restores the newest checkpoint or initializes them, other tasks wait), recovery after a loss, and the hooks.
 * Jobs, monitored sessions and supervisors are built on it.
 */
import type { MessageInitShape } from '@bufbuild/protobuf';
import { describeError, invalid } from '../../../base/errors/errors.js';
import type { Names } from '../../../base/errors/option-names.js';
import type { ConfigProtoSchema } from '../../../base/proto/generated/config_pb.js';
import type { Log } from '../../../base/text/log.js';
import { checkGatherMode, type GatherMode } from '../../../distributed/checkpoint/directory/gather.js';
import type { Fetches } from '../../../tensorflow/session/fetches.js';
import type { RunOptions } from '../../../tensorflow/session/runner.js';
import { GraphKeys } from '../../../tensorflow/variables/collections.js';
import { type Counted, globalStepOf } from '../../../tensorflow/variables/global-step.js';
import { InputRelease } from '../../input/dataset/release.js';
import { isVoidStep } from '../../input/leases/step-marks.js';
import { applyWarmStarts } from '../checkpoints/warm-start.js';
import type { SessionRunHook } from '../hooks/session-run-hook.js';
import { Feeders } from '../leases/feeders.js';
import { LeasedInput } from '../leases/leased-input.js';
import { ChiefWatch } from '../recovery/chief-watch.js';
import type { Coordinator } from '../recovery/coordinator.js';
import { READ_STEP_MS, readGlobalStep } from '../recovery/read-global-step.js';
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
  recoveryData,
} from '../recovery/recovery-report.js';
import type { ReplacedVariables } from '../recovery/replaced-variables.js';
import { FallingStepWatch } from '../recovery/steps/falling-step-watch.js';
import type { StepGate } from '../recovery/steps/step-gate.js';
import { Gathering } from '../task/gathering.js';
import type { Server } from '../task/server.js';
import type { SharedStepAlarm } from '../task/shared-step-alarm.js';
import { countBefore, StepWatch } from '../task/step-watch.js';
import type { TrainingRunner } from '../task/training-runner.js';
import { betweenSteps } from './between-steps.js';
import { persist } from './hooked-run.js';
import { openRunner } from './open-runner.js';

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
  readonly log: Log;
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
  /** Completes the last checkpoint on the disk of the chief. With a signal that has fired it logs how to do that later. */
  gather(signal: AbortSignal): Promise<void>;
  /**
   * Reports that this task makes no more steps. With `stay` it waits for the work of other tasks (see LastSteps). From
   * then on the process runs only as long as it has other work.
   */
  finish(options: FinishTrainingOptions): Promise<void>;
}

export interface FinishTrainingOptions {
  readonly stay: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Whether training failed, or its last steps could not be saved; default: false. */
  readonly failed?: boolean;
}

/** How long failed steps may take to end, once their input has been stopped. */
const SETTLE_MS = 5000;

/** What a training is opened from, and what it consists of while it is being opened. */
interface Opening {
  readonly options: OpenTrainingOptions;
  readonly runner: TrainingRunner;
  readonly recoveryGuard: RecoveryGuard;
  readonly recoveryReport: RecoveryReport | undefined;
  readonly inputRelease: InputRelease;
  readonly gathering: Gathering;
  readonly gate: StepGate | undefined;
  /** Of the chief of a cluster. */
  readonly stepAlarm: SharedStepAlarm | undefined;
  readonly leased: LeasedInput | undefined;
  readonly feeders: Feeders | undefined;
  readonly replaced: ReplacedVariables | undefined;
  readonly close: () => Promise<void>;
}

export async function openTraining(options: OpenTrainingOptions): Promise<OpenedTraining> {
  const { server, isChief, recovery: mode } = options;
  checkGatherMode(options.gather, 'gather');
  if (mode === 'partial') checkPartial(options);
  const stepAlarm = isChief ? server?.checkpoints.stepAlarm : undefined;
  const fellBefore = stepAlarm?.error !== undefined;
  stepAlarm?.clear();
  const opening = await open(options, stepAlarm, (error) =>
    // TensorFlow's own engine cannot end a step that is running.
    session.recoverBeside(error, { endsSteps: server?.engine.kind === 'direct' }),
  );
  const { runner, gate } = opening;
  const session = new RecoverableSession({
    ...sessionOptions(opening),
    ...recoveryOptions(opening),
    ...valuesOptions(opening, fellBefore),
  });
  const watches = watchesOf(opening);
  const place: TrainingPlace = { runner, gate, server, isChief };
  const services = options.onOpen?.(place);
  await server?.checkpoints.lastSteps.begin().catch(async (error: unknown) => {
    endAll(watches);
    await opening.close();
    throw error;
  });
  // Paused steps wait only for a message, which does not keep the process alive.
  const release = server?.keepProcess();
  if (release) watches.push({ [Symbol.dispose]: release });
  return {
    ...place,
    session,
    recoveryGuard: opening.recoveryGuard,
    leased: opening.leased,
    background: { ...runner, run: persistent(runner, session) },
    ...(server || !gate ? { betweenSteps: runner, saving: runner } : betweenSteps(runner, gate)),
    gather: async (stop) => {
      if (isChief) await opening.gathering.end(stop);
    },
    finish: (how) => finish(opening, watches, how),
    [Symbol.asyncDispose]: () => close(opening, watches, services),
  };
}

async function open(
  options: OpenTrainingOptions,
  stepAlarm: SharedStepAlarm | undefined,
  recover: (error: unknown) => Promise<void>,
): Promise<Opening> {
  const { server, coordinator, signal, log } = options;
  const recoveryGuard = new RecoveryGuard();
  const inputRelease = new InputRelease(options.graph);
  const recoveryReport = server && reportOf(server, options.recovery);
  const gathering = new Gathering(options.gather, options.stop ?? signal);
  const opened = await openRunner(options, recoveryGuard, inputRelease);
  const plain: TrainingRunner = {
    ...opened.runner,
    gathering,
    recoveryReport,
    recover: server && recover,
  };
  const close = async () => {
    recoveryReport?.close();
    await opened.close();
  };
  const gate = options.gate ?? server?.checkpoints.pauses.gate;
  const leased = await openLeases(options, plain, recoveryGuard, gate).catch(async (error: unknown) => {
    await close();
    throw error;
  });
  const onError = (error: unknown) => coordinator.requestStop(error);
  const feeders = Feeders.of(plain, { log, onError });
  const runner: TrainingRunner = leased ? { ...plain, input: leased.checkpointed } : plain;
  const { replaced } = opened;
  const input = { inputRelease, leased, feeders };
  return {
    options,
    runner,
    replaced,
    close,
    recoveryGuard,
    recoveryReport,
    gathering,
    gate,
    stepAlarm,
    ...input,
  };
}

function reportOf(server: Server, mode: RecoveryMode = 'exact'): RecoveryReport {
  return new RecoveryReport({
    task: server.task,
    mode,
    onLostSteps: (steps) => server.metrics.repeatedSteps.add(steps),
    onPhases: (phases) => server.metrics.recovered(mode, phases),
  });
}

/** Where and how long steps run. */
function sessionOptions({ options, runner, gate, inputRelease, replaced }: Opening) {
  const { graph, server, isChief, signal, stop, log, stepFloorMs } = options;
  const stepWatch = server && new StepWatch(runner, server);
  return {
    runner,
    graph,
    globalStep: runner.globalStep,
    isChief,
    signal,
    stop,
    log,
    recoveryMs: options.maxWaitMs,
    // A step in this process depends on no task that could be lost.
    stepMs: server ? options.stepMs : Number.POSITIVE_INFINITY,
    stepFloorMs,
    lostPs: server && (() => server.lostPs()),
    isComplete: () => server?.isComplete({ workers: options.needsWorkers ?? true }) ?? true,
    isRecoverable: server ? (error: unknown) => isRecoverable(error) || isVoidStep(error) : () => false,
    isAlone: !server,
    isPartial: options.recovery === 'partial',
    replaced,
    gate,
    onStepTime:
      server &&
      ((ms: number) => {
        server.metrics.steps.observe(ms / 1000);
        if (server.engine.trace?.isOn) server.engine.trace.span('steps', 'step', ms);
        stepWatch?.made();
      }),
    inputReleases: inputRelease.times,
  };
}

/** What begins and ends with a recovery. */
function recoveryOptions(opening: Opening) {
  const { options, runner, recoveryGuard, recoveryReport, leased, feeders } = opening;
  const { server, hooks = [], coordinator, log } = options;
  return {
    onLost: async () => {
      recoveryReport?.begin();
      await recoveryGuard.suspend(log);
      await leased?.quiet();
      await feeders?.stop();
      await server?.engine
        .settled({ timeoutMs: SETTLE_MS })
        .catch((error: unknown) => log(describeError(error), 'warn'));
    },
    onReady: async (again: boolean) => {
      await leased?.ready();
      await feeders?.begin();
      recoveryGuard.resume();
      const restored = again ? undefined : recoveryReport?.started();
      if (restored)
        log(`others were training: ${describeRestored(restored)}`, 'info', {
          event: 'recovery',
          step: restored.step,
          mode: options.recovery ?? 'exact',
          lost: [],
          restored,
        });
      void server?.finished.reportBegun();
      await options.onReady?.(again);
      for (const hook of hooks) await hook.afterCreateSession?.(runner, coordinator);
    },
    onRecovered:
      recoveryReport &&
      (async (ms: number) => {
        const step = options.onRecovery && (await readGlobalStep(runner, { timeoutMs: READ_STEP_MS }));
        const recovery = recoveryReport.end(ms);
        log(describeRecovery(recovery), 'info', recoveryData(recovery, step));
        const { lost, restored } = recovery;
        server?.metrics.emit({
          type: 'recovered',
          ms,
          lost,
          phases: recoveryReport.phases,
          restored: restored && describeRestored(restored),
        });
        await options.onRecovery?.({ ...recovery, step: step ?? 0 });
      }),
  };
}

/** Where variables get their values from. */
function valuesOptions({ options, runner, leased, stepAlarm }: Opening, fellBefore: boolean) {
  const { signal, log } = options;
  const { restore: restoreNow, initialize, ...values } = options.values(runner);
  const restore: TrainingValues['restore'] =
    restoreNow &&
    (async (missing, again) => {
      await countBefore(runner, missing);
      return restoreNow(missing, again);
    });
  return {
    ...values,
    ...(leased?.values({ restore, initialize }) ?? { restore, initialize }),
    warmStart: () => applyWarmStarts(runner, { signal, log }),
    onValues: stepAlarm && (() => stepAlarm.reset()),
    hasFallen: stepAlarm && (async () => fellBefore || (await stepAlarm.isRaisedElsewhere())),
    onFirstReady: stepAlarm && (() => stepAlarm.clearElsewhere()),
  };
}

/** What watches other tasks and the global step while this task trains. */
function watchesOf({ options, runner, stepAlarm, recoveryGuard }: Opening): Disposable[] {
  const { server, isChief, coordinator, log } = options;
  const watches: Disposable[] = [];
  if (server && !isChief && options.savesCheckpoints)
    watches.push(new ChiefWatch({ task: server.task, finished: server.finished, log }));
  const globalStep = globalStepOf(runner);
  if (server && stepAlarm && globalStep) {
    const onFall = (error: unknown) => coordinator.requestStop(error);
    const lostPs = () => server.lostPs();
    watches.push(
      new FallingStepWatch({ alarm: stepAlarm, runner, globalStep, recoveryGuard, lostPs, onFall }),
    );
  }
  return watches;
}

function endAll(watches: readonly Disposable[]): void {
  for (const watch of watches) watch[Symbol.dispose]();
}

async function finish(
  { options, gathering }: Opening,
  watches: readonly Disposable[],
  { stay, signal, failed = false }: FinishTrainingOptions,
): Promise<void> {
  const { server, isChief, log } = options;
  try {
    // Before the other tasks may leave.
    if (stay && isChief) await gathering.end(signal);
    await server?.checkpoints.lastSteps.finish({ stay, signal, log });
    if (failed) await server?.finished.reportStopped('failed');
  } finally {
    gathering[Symbol.dispose]();
    endAll(watches);
  }
}

async function close(
  opening: Opening,
  watches: readonly Disposable[],
  services: Disposable | AsyncDisposable | undefined,
): Promise<void> {
  const { leased, feeders } = opening;
  try {
    if (services && Symbol.asyncDispose in services) await services[Symbol.asyncDispose]();
    else services?.[Symbol.dispose]();
    leased?.stop();
    await feeders?.stop();
    await leased?.[Symbol.asyncDispose]();
  } finally {
    endAll(watches);
    await opening.close();
  }
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

function persistent(runner: TrainingRunner, session: RecoverableSession): TrainingRunner['run'] {
  return <const F extends Fetches>(fetches: F, options: RunOptions = {}) =>
    persist(session, () => runner.run(fetches, options), options);
}
