/** Logs on a worker that nothing is saved while the chief is lost or preempted: at once, and every minute. */
import type { Identity } from '../../cluster/membership/map.js';
import type { ClusterTask } from '../../cluster/task/cluster-task.js';

const EVERY_MS = 60_000;

export interface ChiefWatchOptions {
  readonly task: Pick<ClusterTask, 'task' | 'chief' | 'events' | 'member'>;
  /** Whether a chief that has left will be started again. */
  readonly returns: (chief: Identity) => boolean;
  readonly log: (line: string) => void;
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
      const isPreempted = event.type === 'left' && options.returns(event.member);
      if (event.type === 'lost' || isPreempted) this.#begin(isPreempted);
      else if (event.type === 'back' || event.type === 'left') clearInterval(this.#timer);
    });
  }

  #begin(isPreempted: boolean): void {
    const { task, log } = this.#options;
    const step = task.member(task.task)?.step ?? undefined;
    const since = step === undefined ? '' : `, from about step ${step} on`;
    const begun = performance.now();
    const report = () => {
      const minutes = Math.round((performance.now() - begun) / 60_000);
      const now = isPreempted ? 'was preempted' : 'is lost';
      const how = minutes === 0 ? now : `has been ${isPreempted ? 'away' : 'lost'} for ${minutes} min`;
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
