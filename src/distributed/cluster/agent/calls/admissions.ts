/**
 * The work that this task does for others: orders, requests and streams. Each piece belongs to the process that asked
 * for it. When a later process of the same task is known, the work of its predecessors is ended, and the successor's
 * work begins when that is over. So nothing that was accepted from a process changes state after its successor has begun.
 */
import { ShoalError } from '../../../../base/errors/errors.js';
import { isReplacedBy, REPLACED } from '../../membership/fence.js';
import type { Identity } from '../../membership/map.js';
import type { TaskId } from '../../spec/task-id.js';

/** `stream`: work that also ends when its process is lost. */
export type WorkKind = 'call' | 'stream';

export interface Admission {
  /** Fires when the work must end. */
  readonly signal: AbortSignal;
  /** Settles when the work of predecessors is over; undefined if there is none. Rejects if it does not end. */
  readonly ready: Promise<void> | undefined;
  /** Keeps the work running until the promise settles, also after `release`. */
  hold(work: Promise<unknown>): void;
  /** The work is over, but for what is held. */
  release(): void;
}

interface Work {
  readonly from: Identity;
  readonly kind: WorkKind;
  readonly what: string;
  readonly controller: AbortController;
  readonly over: Promise<void>;
}

/** How long the work of a predecessor may take to end. */
const END_MS = 30_000;

export class Admissions {
  readonly #self: () => TaskId;
  readonly #endMs: number;
  readonly #work = new Map<TaskId, Set<Work>>();

  constructor(self: () => TaskId, { endMs = END_MS }: { readonly endMs?: number } = {}) {
    this.#self = self;
    this.#endMs = endMs;
  }

  /** Admits work of a process that is the latest one of its task, and ends that of its predecessors. */
  admit(from: Identity, kind: WorkKind, what: string): Admission {
    const { task, incarnation, nonce } = from;
    const earlier = this.#endEarlier(from);
    const controller = new AbortController();
    let held = 1;
    let finish = () => {};
    const over = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const work: Work = { from: { task, incarnation, nonce }, kind, what, controller, over };
    const all = this.#work.get(task) ?? new Set();
    this.#work.set(task, all.add(work));
    const release = () => {
      held -= 1;
      if (held > 0) return;
      all.delete(work);
      if (all.size === 0 && this.#work.get(task) === all) this.#work.delete(task);
      finish();
    };
    let isReleased = false;
    return {
      signal: controller.signal,
      ready: earlier.length === 0 ? undefined : this.#allOver(from, earlier),
      hold(promise) {
        held += 1;
        promise.then(release, release);
      },
      release() {
        if (!isReleased) release();
        isReleased = true;
      },
    };
  }

  /** Ends the work of all predecessors of a process. */
  supersede(latest: Identity): void {
    this.#endEarlier(latest);
  }

  /** Ends the streams of a process that is lost or has left. */
  endStreams(of: Identity): void {
    for (const { from, kind, controller } of this.#work.get(of.task) ?? []) {
      if (kind === 'stream' && from.nonce === of.nonce)
        controller.abort(new ShoalError('SHOAL_ABORTED', `${of.task} is lost`));
    }
  }

  #endEarlier(latest: Identity): readonly Work[] {
    const earlier = [...(this.#work.get(latest.task) ?? [])].filter(({ from }) => isReplacedBy(from, latest));
    for (const { controller, from } of earlier) {
      if (!controller.signal.aborted)
        controller.abort(
          new ShoalError('SHOAL_FORBIDDEN', `${from.task}, incarnation ${from.incarnation}, ${REPLACED}`),
        );
    }
    return earlier;
  }

  async #allOver({ task }: Identity, earlier: readonly Work[]): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<'late'>((resolve) => {
      timer = setTimeout(() => resolve('late'), this.#endMs).unref();
    });
    const outcome = await Promise.race([Promise.all(earlier.map(({ over }) => over)), late]);
    clearTimeout(timer);
    if (outcome !== 'late') return;
    const running = earlier.filter((work) => this.#work.get(task)?.has(work)).map(({ what }) => what);
    throw new ShoalError(
      'SHOAL_UNREACHABLE',
      `${this.#self()} is still executing ${[...new Set(running)].join(', ')} of the earlier process of ${task}`,
      { task: this.#self(), hint: 'It is retried. If this continues, restart that task.' },
    );
  }
}
