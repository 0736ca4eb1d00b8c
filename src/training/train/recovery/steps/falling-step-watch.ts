/** Reads the global step regularly on the chief, so that a fall is noticed before much is trained on lost values. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Variable } from '../../../../tensorflow/variables/variable.js';
import { READ_STEP_MS, readGlobalStep, type StepReader } from '../read-global-step.js';
import type { RecoveryGuard } from '../recovery-guard.js';
import { isStepAlarm, type StepAlarm } from './step-alarm.js';

const EVERY_MS = 2000;

export interface FallingStepWatchOptions {
  readonly alarm: StepAlarm;
  readonly runner: StepReader;
  readonly globalStep: Variable;
  readonly recoveryGuard: RecoveryGuard;
  /** The ps that are known to be lost: a read would only wait for them. */
  readonly lostPs: () => readonly string[];
  /** Called when the step has fallen. */
  readonly onFall: (error: unknown) => void;
}

export class FallingStepWatch implements Disposable {
  readonly #options: FallingStepWatchOptions;
  readonly #over = new AbortController();

  constructor(options: FallingStepWatchOptions) {
    this.#options = options;
    void this.#run();
  }

  async #run(): Promise<void> {
    const { alarm, runner, globalStep, recoveryGuard, lostPs, onFall } = this.#options;
    const { signal } = this.#over;
    while (!signal.aborted) {
      try {
        // A program that never closes its session ends all the same.
        await sleep(EVERY_MS, undefined, { signal, ref: false });
        if (lostPs().length > 0) continue;
        await recoveryGuard.during(
          'A read of the global step',
          (until) =>
            alarm.read(
              globalStep,
              async () => (await readGlobalStep(runner, { timeoutMs: READ_STEP_MS, signal: until })) ?? 0,
            ),
          signal,
        );
      } catch (error) {
        if (isStepAlarm(error) && !signal.aborted) return onFall(error);
        // A run that fails otherwise is the business of the steps.
      }
    }
  }

  [Symbol.dispose](): void {
    this.#over.abort('training is over');
  }
}
