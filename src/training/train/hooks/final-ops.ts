/** Runs ops at the end of the session and keeps their values. */
import type { Feeds } from '../../../tensorflow/session/feeds.js';
import type { Fetches, FetchResult } from '../../../tensorflow/session/fetches.js';
import type { TrainingRunner } from '../task/training-runner.js';
import { SessionRunHook } from './session-run-hook.js';

export class FinalOpsHook<const F extends Fetches> extends SessionRunHook {
  readonly #finalOps: F;
  readonly #feeds: Feeds | undefined;
  #values: FetchResult<F> | undefined;

  /** `feeds` are those of the ops; default: none. */
  constructor(finalOps: F, { feeds }: { readonly feeds?: Feeds | null } = {}) {
    super();
    this.#finalOps = finalOps;
    this.#feeds = feeds ?? undefined;
  }

  /** The values of the ops; undefined before the end. */
  get finalOpsValues(): FetchResult<F> | undefined {
    return this.#values;
  }

  override async end(session: TrainingRunner): Promise<void> {
    this.#values = await session.run(this.#finalOps, this.#feeds ? { feeds: this.#feeds } : {});
  }
}
