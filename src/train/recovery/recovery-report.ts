/** Describes each recovery of a task in one line: what failed, what was restored, from where, and what it cost. */
import type { Manifest } from '../../checkpoint/manifest.js';
import type { ClusterTask } from '../../cluster/task/cluster-task.js';

export interface RecoveryReportOptions {
  readonly task: Pick<ClusterTask, 'events' | 'members'>;
  /** Called with the number of steps that a restore has undone; default: none. */
  readonly onLostSteps?: (steps: number) => void;
}

export interface Restored {
  readonly manifest: Pick<Manifest, 'prefix' | 'step'>;
  /** The places that have a copy. */
  readonly places: readonly string[];
}

export class RecoveryReport {
  readonly #options: RecoveryReportOptions;
  readonly #stop: () => void;
  /** The tasks that were lost since the last recovery. */
  readonly #lost = new Set<string>();
  /** The highest step that any task had reported when the recovery began. */
  #step: number | undefined;
  #restored: Restored | undefined;

  constructor(options: RecoveryReportOptions) {
    this.#options = options;
    this.#stop = options.task.events.on('*', (event) => {
      const isLost = event.type === 'lost' || (event.type === 'back' && event.replaced);
      if (isLost) this.#lost.add(event.member.task);
    });
  }

  /** A recovery begins. */
  begin(): void {
    const steps = this.#options.task.members().flatMap(({ step }) => step ?? []);
    this.#step = steps.length === 0 ? undefined : Math.max(...steps);
    this.#restored = undefined;
  }

  /** This task, as chief, has restored a checkpoint. */
  restored(restored: Restored): void {
    this.#restored = restored;
  }

  /** The recovery is complete. Returns its description. */
  end(ms: number): string {
    const lost = [...this.#lost].sort();
    const parts = [
      `the cluster is complete again after ${(ms / 1000).toFixed(1)} s`,
      lost.length === 0 ? undefined : `lost ${lost.join(', ')}`,
      this.#describeRestore(),
    ];
    this.#lost.clear();
    return `${parts.filter((part) => part !== undefined).join('; ')}; training continues`;
  }

  #describeRestore(): string | undefined {
    if (!this.#restored) return undefined;
    const { manifest, places } = this.#restored;
    const what = `restored ${manifest.prefix} from ${places.join(', ')}`;
    if (this.#step === undefined) return what;
    const steps = Math.max(0, this.#step - manifest.step);
    this.#options.onLostSteps?.(steps);
    return `${what}; ${steps} steps are repeated`;
  }

  close(): void {
    this.#stop();
  }
}
