/** Lets a worker begin only when the global step is far enough: workers start one after the other. */
import { sleep } from '../../async/deadline.js';
import type { Output } from '../../graph/operation.js';
import { globalStepRead, readStep } from './global-step.js';
import { type HookSetup, type SessionRunContext, SessionRunHook } from './session-run-hook.js';

export class GlobalStepWaiterHook extends SessionRunHook {
  readonly #waitUntilStep: number;
  readonly #pollMs: number;
  #step!: Output<'int64'>;
  #log!: (line: string) => void;
  #hasStarted = false;

  constructor(waitUntilStep: number, { pollMs = 500 }: { readonly pollMs?: number } = {}) {
    super();
    this.#waitUntilStep = waitUntilStep;
    this.#pollMs = pollMs;
  }

  override begin({ graph, log }: HookSetup): void {
    this.#step = globalStepRead(graph, 'GlobalStepWaiterHook');
    this.#log = log;
    this.#hasStarted = this.#waitUntilStep <= 0;
  }

  override async beforeRun({ session, signal }: SessionRunContext): Promise<void> {
    let told: number | undefined;
    while (!this.#hasStarted) {
      const step = await readStep(session, this.#step);
      this.#hasStarted = step >= this.#waitUntilStep;
      if (this.#hasStarted) return;
      if (told === undefined || step - told > 1000) {
        this.#log(`waiting for global step ${this.#waitUntilStep} before the first step; it is ${step}`);
        told = step;
      }
      await sleep(this.#pollMs, signal);
    }
  }
}
