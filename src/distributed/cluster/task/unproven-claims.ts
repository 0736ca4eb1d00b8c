/** Logs claims that were not confirmed, each once: its sender repeats it with every message. */
import type { Log } from '../../../base/text/log.js';
import type { Effect } from '../membership/types.js';
import type { TaskId } from '../spec/task-id.js';

/** Above this number, the claims are forgotten, and logged again when they are repeated. */
const MOST = 1000;

export class UnprovenClaims {
  readonly #logged = new Map<string, string>();

  constructor(
    readonly self: TaskId,
    readonly log: Log | undefined,
  ) {}

  report({ claim: { entry, by }, why }: Extract<Effect, { type: 'unproven' }>): void {
    const about = `${by} about ${entry.task}`;
    const claimed = `incarnation ${entry.incarnation} of ${entry.task} runs at ${entry.agentAddress}`;
    if (this.#logged.get(about) === claimed) return;
    if (this.#logged.size >= MOST) this.#logged.clear();
    this.#logged.set(about, claimed);
    this.log?.(`${this.self}: ${by} claims that ${claimed}; ignored: ${why}`);
  }
}
