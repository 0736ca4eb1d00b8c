/**
 * Runs a plan: starts each stage as soon as those before it have ended, stages of different tasks at once. The first
 * failure ends the run and cancels the stages that are running.
 */
import { abortError } from '../../base/async/deadline.js';
import { onAborted } from '../../base/async/on-aborted.js';
import { ShoalError } from '../../base/errors/errors.js';
import { LONGEST_TIMER_MS } from '../../tensorflow/session/native-call.js';
import type { Tensor } from '../../tensorflow/tensor/tensor.js';
import type { Plan, Stage } from './partition/plan.js';

/** Called once: with the outputs, which then belong to the receiver, or with an error. */
export type StageEnded = (error: ShoalError | undefined, outputs: readonly (Tensor | undefined)[]) => void;

/** Runs stages on one task. A tensor that is undefined stays on that task. */
export interface StageRunner {
  /**
   * Starts a stage of the run with this number; returns the function that cancels it. `done` is called once, possibly
   * before `start` returns.
   */
  start(
    stage: Stage,
    inputs: readonly (Tensor | undefined)[],
    timeoutMs: number | undefined,
    done: StageEnded,
    run: number,
  ): (() => void) | undefined;
  /** Frees what the task keeps for a run that has failed, of which no stage is running. */
  forget?(run: number): void;
}

/** A plan with what every run of it needs. */
export interface RunnablePlan {
  readonly plan: Plan;
  /** The stages that depend on each stage. */
  readonly next: readonly (readonly number[])[];
  /** The number of stages that use each tensor; fetched ones count once more. */
  readonly uses: readonly number[];
}

export interface PlanRunOptions {
  /** What runs, for messages. */
  readonly what: () => string;
  readonly timeoutMs?: number;
  /** Each of them cancels the run. */
  readonly signals?: readonly AbortSignal[];
  /** Called when no stage of the run is running any more, which may be after the run has failed. */
  readonly onEnded?: () => void;
  /** Called when the run has failed while stages are running; `ended` resolves when they have ended. */
  readonly onFailed?: (ended: Promise<void>) => void;
}

/** How long the stages may take to end by themselves after the deadline. */
const GRACE_MS = 250;
/** The number of the next run. */
let nextRun = 0;

export function prepareRun(plan: Plan): RunnablePlan {
  const next = plan.stages.map((): number[] => []);
  const uses = new Array<number>(plan.tensors).fill(0);
  plan.stages.forEach(({ after, inputs }, at) => {
    for (const earlier of after) next[earlier]?.push(at);
    for (const tensor of inputs) uses[tensor] = (uses[tensor] as number) + 1;
  });
  // Fed tensors belong to the caller.
  for (let tensor = 0; tensor < plan.feeds; tensor++) uses[tensor] = Number.POSITIVE_INFINITY;
  for (const tensor of plan.fetches) uses[tensor] = (uses[tensor] as number) + 1;
  return { plan, next, uses };
}

/** Resolves with the fetched tensors. */
export function runPlan(
  { plan, next, uses }: RunnablePlan,
  feeds: readonly Tensor[],
  runnerOf: (task: string) => StageRunner,
  { what, timeoutMs, signals = [], onEnded, onFailed }: PlanRunOptions,
): Promise<Tensor[]> {
  return new Promise((resolve, reject) => {
    const aborted = signals.find((signal) => signal.aborted);
    if (aborted) {
      onEnded?.();
      reject(abortError(what(), aborted));
      return;
    }
    const { stages } = plan;
    const run = nextRun;
    nextRun = (run + 1) % 2 ** 32;
    /** A run has one connection to each task: a later one does not have the tensors that the task keeps. */
    const runners = new Map<string, StageRunner>();
    const tensors: (Tensor | undefined)[] = [...feeds];
    const users = [...uses];
    const missing = stages.map(({ after }) => after.length);
    const cancels = new Map<number, () => void>();
    const stopWaiting: (() => void)[] = [];
    let timer: NodeJS.Timeout | undefined;
    let left = stages.length;
    let running = 0;
    let isOver = false;
    let onAbandoned: (() => void) | undefined;

    const finish = () => {
      isOver = true;
      if (timer !== undefined) clearTimeout(timer);
      for (const stop of stopWaiting) stop();
    };
    const succeed = () => {
      finish();
      resolve(plan.fetches.map((tensor) => tensors[tensor] as Tensor));
      onEnded?.();
    };
    const release = (tensor: number) => {
      users[tensor] = (users[tensor] as number) - 1;
      if (users[tensor] === 0) tensors[tensor]?.dispose();
    };
    const fail = (error: unknown) => {
      if (isOver) return;
      finish();
      for (const cancel of cancels.values()) cancel();
      if (running > 0) {
        onFailed?.(
          new Promise((resolve) => {
            onAbandoned = resolve;
          }),
        );
      }
      reject(error);
    };
    /** After a failure, when the last stage has ended: no stage will use what is left. */
    const abandon = () => {
      if (running > 0) return;
      for (let tensor = plan.feeds; tensor < tensors.length; tensor++) tensors[tensor]?.dispose();
      for (const runner of runners.values()) runner.forget?.(run);
      onAbandoned?.();
      onEnded?.();
    };
    const onAbort = (signal: AbortSignal) => fail(abortError(what(), signal));

    const ended = (at: number, error: ShoalError | undefined, outputs: readonly (Tensor | undefined)[]) => {
      running -= 1;
      cancels.delete(at);
      const { inputs, outputs: numbers } = stages[at] as Stage;
      for (const tensor of inputs) release(tensor);
      if (isOver || error) {
        for (const output of outputs) output?.dispose();
        if (error) fail(error);
        abandon();
        return;
      }
      outputs.forEach((output, i) => {
        tensors[numbers[i] as number] = output;
      });
      left -= 1;
      if (left === 0) {
        succeed();
        return;
      }
      for (const later of next[at] as readonly number[]) {
        missing[later] = (missing[later] as number) - 1;
        if (missing[later] === 0 && !isOver) start(later);
      }
    };

    const start = (at: number) => {
      const stage = stages[at] as Stage;
      running += 1;
      let isDone = false;
      try {
        const inputs = stage.inputs.map((tensor) => tensors[tensor]);
        const runner = runners.get(stage.task) ?? runnerOf(stage.task);
        runners.set(stage.task, runner);
        const done: StageEnded = (error, outputs) => {
          isDone = true;
          ended(at, error, outputs);
        };
        const cancel = runner.start(stage, inputs, timeoutMs, done, run);
        if (cancel && !isDone) cancels.set(at, cancel);
      } catch (error) {
        if (isDone) throw error;
        running -= 1;
        fail(error);
        abandon();
      }
    };

    for (const signal of signals) stopWaiting.push(onAborted(signal, onAbort));
    if (timeoutMs !== undefined && timeoutMs + GRACE_MS <= LONGEST_TIMER_MS) {
      timer = setTimeout(() => fail(deadlineError(what(), timeoutMs)), timeoutMs + GRACE_MS);
    }
    if (left === 0) {
      succeed();
      return;
    }
    for (let at = 0; at < stages.length && !isOver; at++) if (stages[at]?.after.length === 0) start(at);
  });
}

function deadlineError(what: string, timeoutMs: number): ShoalError {
  return new ShoalError('SHOAL_TF_DEADLINE_EXCEEDED', `${what} timed out after ${timeoutMs} ms`, {
    hint: 'A task may be frozen or unreachable.',
  });
}
