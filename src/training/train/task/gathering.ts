/**
 * When the checkpoints of a training become complete on the disk of the chief: after each save, or at the end of
 * training, while the tasks that hold the data are still there. Failures are only logged.
 */
import { serialQueue } from '../../../base/async/serial-queue.js';
import type { Checkpoints } from '../../../distributed/checkpoint/checkpoints.js';
import type { GatherMode } from '../../../distributed/checkpoint/directory/gather.js';

type Gathered = Pick<Checkpoints, 'gather'>;

const DEFAULT: GatherMode = 'last';

export class Gathering implements Disposable {
  readonly #mode: GatherMode | undefined;
  readonly #stop: AbortSignal;
  readonly #over = new AbortController();
  readonly #atEnd = new Map<Gathered, 'last' | 'all'>();
  readonly #inTurn = serialQueue();

  /**
   * @param mode default: that of the saver.
   * @param stop ends the work during training; default: only the end of training does.
   */
  constructor(mode?: GatherMode, stop?: AbortSignal) {
    this.#mode = mode;
    this.#stop = stop ? AbortSignal.any([stop, this.#over.signal]) : this.#over.signal;
  }

  /** A checkpoint was saved. `mode` is that of the saver. */
  saved(checkpoints: Gathered, mode: GatherMode | undefined): void {
    this.restored(checkpoints, mode);
    if (this.#atEnd.get(checkpoints) !== 'all') return;
    void this.#inTurn(async () => {
      if (!this.#stop.aborted) await checkpoints.gather('all', { signal: this.#stop, isEnd: false });
    });
  }

  /** A checkpoint was restored; it is the last one if no other follows. */
  restored(checkpoints: Gathered, saverMode: GatherMode = DEFAULT): void {
    const mode = this.#mode ?? saverMode;
    if (mode !== 'none') this.#atEnd.set(checkpoints, mode);
  }

  /** The end of training. When the signal is aborted, what is not copied yet is only logged, with the command for it. */
  async end(signal: AbortSignal | undefined): Promise<void> {
    const ended = signal ? AbortSignal.any([signal, this.#over.signal]) : this.#over.signal;
    const work = [...this.#atEnd];
    this.#atEnd.clear();
    for (const [checkpoints, mode] of work)
      await this.#inTurn(() => checkpoints.gather(mode, { signal: ended }));
  }

  [Symbol.dispose](): void {
    this.#over.abort('training has ended');
  }
}
