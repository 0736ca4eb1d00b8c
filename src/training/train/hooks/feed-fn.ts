/** Feeds every run with the result of a function. */
import type { Feeds } from '../../../tensorflow/session/feeds.js';
import { type SessionRunArgs, SessionRunHook } from './session-run-hook.js';

export class FeedFnHook extends SessionRunHook {
  readonly #feedFn: () => Feeds | Promise<Feeds>;

  constructor(feedFn: () => Feeds | Promise<Feeds>) {
    super();
    this.#feedFn = feedFn;
  }

  override async beforeRun(): Promise<SessionRunArgs> {
    return { feeds: await this.#feedFn() };
  }
}
