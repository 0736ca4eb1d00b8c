/**
 * One training of a task, from its start to its end: carries out the life that `lifecycle.ts` decides. A job, a monitored
 * session and a supervisor are faces of it: they make the steps, and say what their own part of the end is.
 */
import { withDeadline } from '../../../base/async/deadline.js';
import { describeError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import { waitForLastSteps } from '../checkpoints/retrying-saver.js';
import type { SessionRunHook } from '../hooks/session-run-hook.js';
import type { Coordinator } from '../recovery/coordinator.js';
import type { StepEnding } from '../recovery/steps/step-ending.js';
import {
  beginLife,
  type EndPolicy,
  type Lifecycle,
  type LifecycleEvent,
  reduceLife,
  type Work,
} from './lifecycle.js';
import type { OpenedTraining } from './open-training.js';

export interface Face {
  readonly policy: EndPolicy;
  readonly hooks: readonly SessionRunHook[];
  readonly coordinator: Coordinator;
  readonly ending: StepEnding;
  /** Aborted when training is interrupted: no other task is waited for any more. */
  readonly signal: AbortSignal | undefined;
  readonly log: Log;
  /** How long each hook may take to end; default: at once. */
  readonly hookEndMs?: number;
  /** How long loops may take to end. */
  readonly loopsEndMs: number;
  /** Whether this task stays at the end for the work of others: see LastSteps. */
  readonly stays: boolean;
  /** Whether something is saved or exported at the end: it must contain the last steps of the other workers. */
  savesLast(): boolean;
  /** Whether the failure of a hook's `end` is only logged; default: it fails training. */
  readonly forgivesHooks?: boolean;
  /** Before the end of steps: waits for those in flight. Default: there are none. */
  endSteps?(hasFailed: boolean): Promise<void>;
  /** Default: the leased input is finished. */
  endInput?(hasFailed: boolean): Promise<void>;
  /** Saves the last checkpoint; throws if the steps since the newest one are lost. Default: a hook does, or none. */
  save?(): Promise<void>;
  results?(): Promise<void>;
  abandon?(error: unknown): Promise<void>;
  /** Frees what the face has opened, and the training. */
  close(): Promise<void>;
  /** Default: reports the end. */
  leave?(): Promise<void>;
}

export class Training {
  readonly #opened: OpenedTraining;
  readonly #face: Face;
  #life: Lifecycle;
  #ending: Promise<void> | undefined;

  constructor(opened: OpenedTraining, face: Face) {
    this.#opened = opened;
    this.#face = face;
    this.#life = beginLife(face.policy);
  }

  /** Resolves when every variable has a value. */
  async ready(): Promise<void> {
    await this.#opened.session.ready();
    this.#tell({ type: 'ready' });
  }

  /** Ends training, once. Throws the first error: `failure`, if training has failed. */
  end(failure?: { readonly error: unknown }): Promise<void> {
    this.#ending ??= this.#end(failure);
    return this.#ending;
  }

  async #end(failure: { readonly error: unknown } | undefined): Promise<void> {
    this.#tell(failure ? { type: 'failed', error: failure.error } : { type: 'stopped' });
    for (let [work] = this.#life.work; work !== undefined; [work] = this.#life.work) {
      try {
        await this.#do(work);
        this.#tell({ type: 'done' });
      } catch (error) {
        this.#tell({ type: 'failed', error });
      }
    }
    const [first, ...others] = this.#life.errors;
    for (const error of others) if (error !== first) this.#logLater(error);
    if (this.#life.errors.length > 0) throw first;
  }

  #tell(event: LifecycleEvent): void {
    this.#life = reduceLife(this.#life, event);
  }

  async #do(work: Work): Promise<void> {
    const { leased, gate, runner, server } = this.#opened;
    const face = this.#face;
    const { coordinator, ending, signal, log, stays } = face;
    const hasFailed = this.#life.errors.length > 0;
    switch (work) {
      case 'end steps':
        await face.endSteps?.(hasFailed);
        // After a failure the other steps in flight are cut off.
        if (!hasFailed) ending.finished();
        gate?.ended();
        return coordinator.raiseRequestedException();
      case 'end loops':
        coordinator.requestStop();
        return coordinator.join([], { stopGracePeriodSecs: face.loopsEndMs / 1000, ignoreLiveTasks: true });
      case 'end input':
        if (face.endInput) return face.endInput(hasFailed);
        // Ends waits for leases: workers that wait for one cannot finish their last steps.
        return leased?.finish();
      case 'await others':
        // The chief of synchronous training makes the steps of the others possible.
        if (face.savesLast() || server?.checkpoints.lastSteps.leads)
          await waitForLastSteps(runner, { signal, log });
        return;
      case 'save':
        return face.save?.();
      case 'results':
        return face.results?.();
      case 'end hooks':
        return this.#endHooks();
      case 'abandon':
        return face.abandon?.(this.#life.errors[0]);
      case 'close':
        return face.close();
      case 'leave':
        if (face.leave) return face.leave();
        // It has its own deadlines: an export may take longer than any grace period.
        return this.#opened.finish({ stay: stays && !hasFailed, signal, failed: hasFailed });
    }
  }

  /** Every hook ends, even if another one fails to. */
  async #endHooks(): Promise<void> {
    const { hooks, hookEndMs = 0, forgivesHooks, log } = this.#face;
    const errors: unknown[] = [];
    for (const hook of hooks) {
      // A hook may throw before it returns a promise.
      const ending = Promise.resolve().then(() => hook.end?.(this.#opened.runner));
      const timeoutMs = hookEndMs + (hook.endMs ?? 0);
      await withDeadline(ending, `The end of ${hook.constructor.name || 'a hook'}`, { timeoutMs }).catch(
        (error: unknown) => {
          if (forgivesHooks) log(`error while ending a hook: ${describeError(error)}`, 'warn');
          else errors.push(error);
        },
      );
    }
    for (const error of errors.slice(1)) this.#logLater(error);
    if (errors.length > 0) throw errors[0];
  }

  #logLater(error: unknown): void {
    this.#face.log(`while closing the session: ${describeError(error)}`, 'warn');
  }
}
