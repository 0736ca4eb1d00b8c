/** Describes each recovery of a task in one line: what failed, what was restored, from where, and what it cost. */
import type { Manifest } from '../../checkpoint/manifest.js';
import { parseTaskId } from '../../cluster/spec/task-id.js';
import type { ClusterTask } from '../../cluster/task/cluster-task.js';

/**
 * The phases of a recovery, in order: until all ps are back; until the chief knows which checkpoint to restore; until it
 * is restored; until steps can run. Only the chief has the two in the middle, and only if something is restored.
 */
export const RECOVERY_PHASES = ['wait', 'find', 'restore', 'resume'] as const;
export type RecoveryPhase = (typeof RECOVERY_PHASES)[number];

export interface RecoveryReportOptions {
  readonly task: Pick<ClusterTask, 'events' | 'members'>;
  /** Called with the number of steps that a restore has undone; default: none. */
  readonly onLostSteps?: (steps: number) => void;
  /** Called at the end of a recovery with the duration of each phase in milliseconds; default: none. */
  readonly onPhases?: (phases: Readonly<Record<RecoveryPhase, number>>) => void;
  /** Monotonic milliseconds; default: `performance.now`. */
  readonly now?: () => number;
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
  readonly #now: () => number;
  /** When the phases of the current recovery ended. */
  #ended: Partial<Record<RecoveryPhase, number>> = {};

  constructor(options: RecoveryReportOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#stop = options.task.events.on('*', (event) => {
      const isLost = event.type === 'lost' || (event.type === 'back' && event.replaced);
      if (isLost) this.#lost.add(event.member.task);
      if (event.type === 'back' && parseTaskId(event.member.task).job === 'ps') this.#end('wait');
    });
  }

  /** A phase ends; those after it begin again. */
  #end(phase: RecoveryPhase): void {
    const after = RECOVERY_PHASES.slice(RECOVERY_PHASES.indexOf(phase) + 1);
    for (const later of after) delete this.#ended[later];
    this.#ended[phase] = this.#now();
  }

  /** A recovery begins. */
  begin(): void {
    const steps = this.#options.task.members().flatMap(({ step }) => step ?? []);
    this.#step = steps.length === 0 ? undefined : Math.max(...steps);
    this.#restored = undefined;
    this.#ended = {};
  }

  /** This task, as chief, knows which checkpoint to restore. */
  found(): void {
    this.#end('find');
  }

  /** This task, as chief, has restored a checkpoint. */
  restored(restored: Restored): void {
    this.#restored = restored;
    this.#end('restore');
  }

  /** The recovery is complete. Returns its description. */
  end(ms: number): string {
    this.#end('resume');
    this.#options.onPhases?.(this.#phases(ms));
    const lost = [...this.#lost].sort();
    const parts = [
      `the cluster is complete again after ${(ms / 1000).toFixed(1)} s`,
      lost.length === 0 ? undefined : `lost ${lost.join(', ')}`,
      this.#describeRestore(),
    ];
    this.#lost.clear();
    return `${parts.filter((part) => part !== undefined).join('; ')}; training continues`;
  }

  #phases(ms: number): Record<RecoveryPhase, number> {
    let at = this.#now() - ms;
    const each = RECOVERY_PHASES.map((phase) => {
      const begun = at;
      at = Math.max(begun, this.#ended[phase] ?? begun);
      return [phase, at - begun] as const;
    });
    return Object.fromEntries(each) as Record<RecoveryPhase, number>;
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
