/** Delays the first step of a worker until the global step has reached a value, so that workers start one by one. */

import { sleep } from '../../../base/async/deadline.js';
import type { Log } from '../../../base/text/log.js';
import { currentStep, globalStepRead } from './global-step.js';
import { type HookSetup, type SessionRunContext, SessionRunHook } from './session-run-hook.js';

export class GlobalStepWaiterHook extends SessionRunHook {
  readonly #waitUntilStep: number;
  readonly #pollMs: number;
  #log!: Log;
  #hasStarted = false;

  /** Reads the global step every `pollMs`; default: 500. */
  constructor(waitUntilStep: number, { pollMs = 500 }: { readonly pollMs?: number } = {}) {
    super();
    this.#waitUntilStep = waitUntilStep;
    this.#pollMs = pollMs;
  }

  override begin({ graph, log }: HookSetup): void {
    globalStepRead(graph, 'GlobalStepWaiterHook');
    this.#log = log;
    this.#hasStarted = this.#waitUntilStep <= 0;
  }

  override async beforeRun({ session, signal }: SessionRunContext): Promise<void> {
    let logged: number | undefined;
    while (!this.#hasStarted) {
      const step = await currentStep(session);
      this.#hasStarted = step >= this.#waitUntilStep;
      if (this.#hasStarted) return;
      if (logged === undefined || step - logged > 1000) {
        this.#log(`waiting for global step ${this.#waitUntilStep} before the first step; it is ${step}`);
        logged = step;
      }
      await sleep(this.#pollMs, signal);
    }
  }
}
