/** Logs on a worker that nothing is saved while the chief is lost, preempted or has failed: at once, and every minute. */

import type { Log } from '../../../base/text/log.js';
import type { Identity } from '../../../distributed/cluster/membership/map.js';
import type { ClusterTask } from '../../../distributed/cluster/task/cluster-task.js';
import type { FinishedWorkers } from '../../../distributed/cluster/task/finished-workers.js';

const EVERY_MS = 60_000;

/** How the absence of the chief is described, at first and later. */
interface Absence {
  readonly now: string;
  readonly later: string;
}
const LOST: Absence = { now: 'is lost', later: 'lost' };
const PREEMPTED: Absence = { now: 'was preempted', later: 'away' };
const FAILED: Absence = { now: 'has failed', later: 'away' };

export interface ChiefWatchOptions {
  readonly task: Pick<ClusterTask, 'task' | 'chief' | 'events' | 'member'>;
  /** What is known about the end of workers. */
  readonly finished: Pick<FinishedWorkers, 'returns' | 'stopped'>;
  readonly log: Log;
}

export class ChiefWatch implements Disposable {
  readonly #options: ChiefWatchOptions;
  readonly #stop: () => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ChiefWatchOptions) {
    this.#options = options;
    const { chief, events } = options.task;
    this.#stop = events.on('*', (event) => {
      if (!('member' in event) || event.member.task !== chief) return;
      const absence =
        event.type === 'lost' ? LOST : event.type === 'left' ? this.#afterLeaving(event.member) : undefined;
      if (absence) this.#begin(absence);
      else if (event.type === 'back' || event.type === 'left') clearInterval(this.#timer);
    });
  }

  #afterLeaving(chief: Identity): Absence | undefined {
    const { finished } = this.#options;
    if (finished.returns(chief)) return PREEMPTED;
    return finished.stopped(chief) === 'failed' ? FAILED : undefined;
  }

  #begin({ now, later }: Absence): void {
    const { task, log } = this.#options;
    const step = task.member(task.task)?.step ?? undefined;
    const since = step === undefined ? '' : `, from about step ${step} on`;
    const begun = performance.now();
    const report = () => {
      const minutes = Math.round((performance.now() - begun) / 60_000);
      const how = minutes === 0 ? now : `has been ${later} for ${minutes} min`;
      log(`the chief, ${task.chief}, ${how}: nothing is saved${since} until it is started again`);
    };
    clearInterval(this.#timer);
    this.#timer = setInterval(report, EVERY_MS);
    this.#timer.unref();
    report();
  }

  [Symbol.dispose](): void {
    this.#stop();
    clearInterval(this.#timer);
  }
}
