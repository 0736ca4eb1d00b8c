/**
 * The step of a task as others see it: in the status, and for the steps that a loss costs. Hooks that fetch the step
 * report it. A program without such hooks, as one with a supervisor, fetches only what it needs.
 */
import { globalStepOf } from '../../../tensorflow/variables/global-step.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { readGlobalStep } from '../recovery/read-global-step.js';
import type { Server } from './server.js';
import type { TrainingRunner } from './training-runner.js';

/** A report at least this recent is not repeated: a heartbeat carries the step to the others. */
const REPORT_MS = 500;
const READ_MS = 5000;

type StepServer = Pick<Server, 'sinceStepMs' | 'lostPs'>;

export class StepWatch {
  readonly #runner: TrainingRunner;
  readonly #server: StepServer;
  #isReading = false;

  constructor(runner: TrainingRunner, server: StepServer) {
    this.#runner = runner;
    this.#server = server;
  }

  /** A training step has ended. */
  made(): void {
    if (this.#isReading || this.#server.sinceStepMs < REPORT_MS) return;
    // A read would only wait for it, and keep the program running.
    if (this.#server.lostPs().length > 0) return;
    this.#isReading = true;
    void readQuietly(this.#runner).finally(() => {
      this.#isReading = false;
    });
  }
}

/**
 * Before a checkpoint is restored: the step that training had reached, if its ps still has it. It is exact; what tasks
 * have reported is older.
 */
export async function countBefore(runner: TrainingRunner, missing: readonly Variable[]): Promise<void> {
  const globalStep = globalStepOf(runner);
  if (!runner.recoveryReport || !globalStep || missing.includes(globalStep)) return;
  const step = await readQuietly(runner);
  if (step !== undefined) runner.recoveryReport.reached(step);
}

/** The step; undefined if it cannot be read now. */
async function readQuietly(runner: TrainingRunner): Promise<number | undefined> {
  try {
    return await readGlobalStep(runner, { timeoutMs: READ_MS });
  } catch {
    // The ps is lost, or the session is being closed.
    return undefined;
  }
}
