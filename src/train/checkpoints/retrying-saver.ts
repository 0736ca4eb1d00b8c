/**
 * Saves for those who must not fail with it: a save that fails is spoken of, counted, and due again after a while
 * that grows. It knows which step was saved last.
 */
import { dirname } from 'node:path';
import { backoffMs } from '../../async/backoff.js';
import { sleep } from '../../async/deadline.js';
import { messageOf } from '../../errors/errors.js';
import type { FileWriter } from '../../summary/file-writer.js';
import { getGlobalStep } from '../../variables/global-step.js';
import type { SaverLike, TrainingRunner } from '../recovery/training-runner.js';
import { checkpointServiceOf } from './checkpoint-service.js';

export interface CarefulSaverOptions {
  /** Asked for at each save: a saver may be made late. */
  readonly saver: () => SaverLike;
  /** `dir/model.ckpt`. */
  readonly path: string;
  readonly log: (line: string) => void;
  readonly writer?: FileWriter | undefined;
  readonly now?: (() => number) | undefined;
}

const RETRY = { baseMs: 1000, maxMs: 60_000 };
/** How long the chief waits for the last steps of the others. */
const LAST_MS = 20_000;
const LAST_RETRY = { baseMs: 200, maxMs: 5_000 };

export class RetryingSaver {
  readonly #options: CarefulSaverOptions;
  readonly #now: () => number;
  #savedStep: number | undefined;
  #failures = 0;
  #retryAt = 0;

  constructor(options: CarefulSaverOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /** The step of the newest checkpoint that is known to be committed. */
  get savedStep(): number | undefined {
    return this.#savedStep;
  }

  get hasFailed(): boolean {
    return this.#failures > 0;
  }

  /** Whether a save that failed is to be tried again at this moment. */
  get isRetryDue(): boolean {
    return this.hasFailed && this.#now() >= this.#retryAt;
  }

  /** How long until then. */
  get retryInMs(): number {
    return Math.max(0, this.#retryAt - this.#now());
  }

  /** Looks whether the state at this step is a checkpoint already, as after a restore. */
  async findSaved(session: TrainingRunner, step: number): Promise<boolean> {
    const { saver, path, log } = this.#options;
    try {
      const newest = await saver().latest(session, dirname(path));
      if (newest?.endsWith(`${path.replace(/^.*\//, '/')}-${step}`)) this.#savedStep = step;
    } catch (error) {
      log(`the newest checkpoint could not be looked up: ${messageOf(error)}`);
    }
    return this.#savedStep === step;
  }

  /** Tries once; gives whether a checkpoint was committed. */
  async save(session: TrainingRunner, step: number, { mayHide = false } = {}): Promise<boolean> {
    const { saver, path, log, writer } = this.#options;
    try {
      // Synchronous steps rest at a step that is counted from here.
      const service = session.server && checkpointServiceOf(session.server);
      service?.gate.saw(step);
      const { recoveryGuard, input } = session;
      const write = async (signal?: AbortSignal) => {
        await input?.settled(signal);
        return saver().save(session, path, { mayHide, ...(signal && { signal }) });
      };
      const saved = await (recoveryGuard ? recoveryGuard.during('A save', write) : write());
      this.#failures = 0;
      this.#savedStep = stepOf(saved) ?? step;
      writer?.addSessionLog('checkpoint', this.#savedStep, { checkpointPath: saved });
      log(`saved ${saved}`);
      return true;
    } catch (error) {
      const waitMs = backoffMs(this.#failures, RETRY);
      this.#failures += 1;
      this.#retryAt = this.#now() + waitMs;
      log(
        `SAVING the checkpoint of step ${step} FAILED (${this.#failures} in a row): ${messageOf(error)}; training goes on, the next try is in ${Math.ceil(waitMs / 1000)} s`,
      );
      return false;
    }
  }

  /** The step that is there when the other workers have made theirs. */
  async lastStep(session: TrainingRunner, told: number): Promise<number> {
    const service = session.server && checkpointServiceOf(session.server);
    const globalStep = getGlobalStep(session.graph);
    if (!service || !globalStep) return told;
    await service.lastSteps.ofOthers({ timeoutMs: LAST_MS, log: this.#options.log });
    await service.stopUpdates();
    return (await session.run(globalStep.toOutput(), { timeoutMs: 30_000 })).number();
  }

  /** What a save would have removed. */
  async #tidy(session: TrainingRunner): Promise<void> {
    const { saver, path, log } = this.#options;
    await saver()
      .tidy?.(session, dirname(path))
      .catch((error: unknown) => log(`old checkpoints could not be removed: ${messageOf(error)}`));
  }

  /** Saves the checkpoint of the last step, unless it is saved already: several tries, then a loud line. */
  async saveLast(session: TrainingRunner, step: number, attempts = 3): Promise<boolean> {
    for (let attempt = 0; step !== this.#savedStep && attempt < attempts; attempt++) {
      if (attempt > 0) await sleep(backoffMs(attempt, LAST_RETRY));
      // No later save would have another name: in the store alone is better than not at all.
      if (await this.save(session, step, { mayHide: attempt + 1 === attempts })) return true;
    }
    if (step === this.#savedStep) {
      await this.#tidy(session);
      return true;
    }
    const newest = this.#savedStep === undefined ? 'an earlier run, if any' : `step ${this.#savedStep}`;
    this.#options.log(`THE LAST CHECKPOINT, of step ${step}, COULD NOT BE SAVED; the newest is of ${newest}`);
    return false;
  }
}

/** The step that a checkpoint is of: others may have trained on between the look at the step and the cut. */
function stepOf(path: string): number | undefined {
  const [, digits] = /-(\d+)$/.exec(path) ?? [];
  return digits === undefined ? undefined : Number(digits);
}
