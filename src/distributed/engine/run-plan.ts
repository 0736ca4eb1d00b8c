/**
 * Runs a plan: starts each stage as soon as those before it have ended, stages of different tasks at once. The first
 * failure ends the run and cancels the stages that are running.
 */
import { abortError } from '../../base/async/deadline.js';
import { onAborted } from '../../base/async/on-aborted.js';
import { isShoalError, ShoalError } from '../../base/errors/errors.js';
import { LONGEST_TIMER_MS } from '../../tensorflow/session/native-call.js';
import type { Tensor } from '../../tensorflow/tensor/tensor.js';
import type { Plan, Stage } from './partition/plan.js';
import type { TaskTrace } from './trace/task-trace.js';

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
  /** Default: the run is not traced. */
  readonly trace?: TaskTrace;
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
  runnable: RunnablePlan,
  feeds: readonly Tensor[],
  runnerOf: (task: string) => StageRunner,
  options: PlanRunOptions,
): Promise<Tensor[]> {
  const aborted = options.signals?.find((signal) => signal.aborted);
  if (aborted) {
    options.onEnded?.();
    return Promise.reject(abortError(options.what(), aborted));
  }
  return new Promise((resolve, reject) => {
    new PlanRun(runnable, feeds, runnerOf, options, { resolve, reject }).begin();
  });
}

interface Settle {
  readonly resolve: (fetched: Tensor[]) => void;
  readonly reject: (error: unknown) => void;
}

/** One run of a plan. It is over when it has settled; it is abandoned when no stage of a failed run is running. */
class PlanRun {
  readonly #plan: Plan;
  readonly #next: RunnablePlan['next'];
  readonly #runnerOf: (task: string) => StageRunner;
  readonly #options: PlanRunOptions;
  readonly #settle: Settle;
  readonly #number: number;
  /** A run has one connection to each task: a later one does not have the tensors that the task keeps. */
  readonly #runners = new Map<string, StageRunner>();
  readonly #tensors: (Tensor | undefined)[];
  /** How many stages will still use each tensor. */
  readonly #users: number[];
  /** How many stages each stage still waits for. */
  readonly #missing: number[];
  readonly #cancels = new Map<number, () => void>();
  readonly #stopWaiting: (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined;
  #left: number;
  #running = 0;
  #isOver = false;
  #onAbandoned: (() => void) | undefined;
  /** When it began, if it is traced. */
  #begun: number | undefined;

  constructor(
    { plan, next, uses }: RunnablePlan,
    feeds: readonly Tensor[],
    runnerOf: (task: string) => StageRunner,
    options: PlanRunOptions,
    settle: Settle,
  ) {
    this.#plan = plan;
    this.#next = next;
    this.#runnerOf = runnerOf;
    this.#options = options;
    this.#settle = settle;
    this.#number = nextRun;
    nextRun = (nextRun + 1) % 2 ** 32;
    this.#tensors = [...feeds];
    this.#users = [...uses];
    this.#missing = plan.stages.map(({ after }) => after.length);
    this.#left = plan.stages.length;
  }

  begin(): void {
    const { what, timeoutMs, signals = [], trace } = this.#options;
    if (trace?.isOn) this.#begun = trace.now();
    const onAbort = (signal: AbortSignal) => this.#fail(abortError(what(), signal));
    for (const signal of signals) this.#stopWaiting.push(onAborted(signal, onAbort));
    if (timeoutMs !== undefined && timeoutMs + GRACE_MS <= LONGEST_TIMER_MS) {
      const expire = () => this.#fail(deadlineError(what(), timeoutMs));
      this.#timer = setTimeout(expire, timeoutMs + GRACE_MS);
    }
    if (this.#left === 0) {
      this.#succeed();
      return;
    }
    const { stages } = this.#plan;
    for (let at = 0; at < stages.length && !this.#isOver; at++) {
      if (stages[at]?.after.length === 0) this.#start(at);
    }
  }

  #start(at: number): void {
    const stage = this.#plan.stages[at] as Stage;
    this.#running += 1;
    let isDone = false;
    try {
      const inputs = stage.inputs.map((tensor) => this.#tensors[tensor]);
      const runner = this.#runners.get(stage.task) ?? this.#runnerOf(stage.task);
      this.#runners.set(stage.task, runner);
      const done: StageEnded = (error, outputs) => {
        isDone = true;
        this.#ended(at, error, outputs);
      };
      const cancel = runner.start(stage, inputs, this.#options.timeoutMs, done, this.#number);
      if (cancel && !isDone) this.#cancels.set(at, cancel);
    } catch (error) {
      if (isDone) throw error;
      this.#running -= 1;
      this.#fail(error);
      this.#abandon();
    }
  }

  #ended(at: number, error: ShoalError | undefined, outputs: readonly (Tensor | undefined)[]): void {
    this.#running -= 1;
    this.#cancels.delete(at);
    const { inputs, outputs: numbers } = this.#plan.stages[at] as Stage;
    for (const tensor of inputs) this.#release(tensor);
    if (this.#isOver || error) {
      for (const output of outputs) output?.dispose();
      if (error) this.#fail(error);
      this.#abandon();
      return;
    }
    outputs.forEach((output, i) => {
      this.#tensors[numbers[i] as number] = output;
    });
    this.#left -= 1;
    if (this.#left === 0) {
      this.#succeed();
      return;
    }
    for (const later of this.#next[at] as readonly number[]) {
      const missing = (this.#missing[later] as number) - 1;
      this.#missing[later] = missing;
      if (missing === 0 && !this.#isOver) this.#start(later);
    }
  }

  #release(tensor: number): void {
    const users = (this.#users[tensor] as number) - 1;
    this.#users[tensor] = users;
    if (users === 0) this.#tensors[tensor]?.dispose();
  }

  #succeed(): void {
    this.#finish();
    this.#settle.resolve(this.#plan.fetches.map((tensor) => this.#tensors[tensor] as Tensor));
    this.#options.onEnded?.();
  }

  #fail(error: unknown): void {
    if (this.#isOver) return;
    this.#finish(error);
    for (const cancel of this.#cancels.values()) cancel();
    if (this.#running > 0) {
      this.#options.onFailed?.(
        new Promise((resolve) => {
          this.#onAbandoned = resolve;
        }),
      );
    }
    this.#settle.reject(error);
  }

  #finish(error?: unknown): void {
    this.#isOver = true;
    if (this.#begun !== undefined) this.#traceEnd(this.#begun, error);
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    for (const stop of this.#stopWaiting) stop();
  }

  #traceEnd(from: number, failure: unknown): void {
    const { trace, what } = this.#options;
    if (!trace) return;
    const error = failure === undefined ? undefined : codeOf(failure);
    trace.add({ kind: 'span', row: 'runs', what: what(), run: this.#number, from, to: trace.now(), error });
  }

  /** After a failure, when the last stage has ended: no stage will use what is left. */
  #abandon(): void {
    if (this.#running > 0) return;
    for (let tensor = this.#plan.feeds; tensor < this.#tensors.length; tensor++) {
      this.#tensors[tensor]?.dispose();
    }
    for (const runner of this.#runners.values()) runner.forget?.(this.#number);
    this.#onAbandoned?.();
    this.#options.onEnded?.();
  }
}

const codeOf = (error: unknown): string => (isShoalError(error) ? error.code : 'SHOAL_INTERNAL');

function deadlineError(what: string, timeoutMs: number): ShoalError {
  return new ShoalError('SHOAL_TF_DEADLINE_EXCEEDED', `${what} timed out after ${timeoutMs} ms`, {
    hint: 'A task may be frozen or unreachable.',
  });
}
