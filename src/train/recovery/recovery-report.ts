/** What a recovery of a task was: what failed, what was restored, from where, and what it cost. */
import type { Manifest } from '../../checkpoint/manifest.js';
import type { ClusterTask } from '../../cluster/task/cluster-task.js';
import type { RecoveryMode } from './recovery-mode.js';

export interface RecoveryReportOptions {
  readonly task: Pick<ClusterTask, 'events' | 'members'>;
  /** Default: exact. */
  readonly mode?: RecoveryMode;
  /** Called with the number of steps that a restore has undone; default: none. */
  readonly onLostSteps?: (steps: number) => void;
}

export interface Restored {
  readonly manifest: Pick<Manifest, 'prefix' | 'step'>;
  /** The places that have a copy. */
  readonly places: readonly string[];
  /** The tasks whose variables were restored, if not all; default: all. */
  readonly tasks?: readonly string[];
  /** Whether the global step was restored; default: true. */
  readonly hasGlobalStep?: boolean;
}

/** A recovery, as its log line describes it. */
export interface Recovery {
  readonly mode: RecoveryMode;
  /** How long training was interrupted. */
  readonly ms: number;
  /** The tasks that were lost, for example `/job:ps/task:1`. */
  readonly lost: readonly string[];
  /** What this task, as chief, has restored; undefined on other tasks, and if nothing had to be restored. */
  readonly restored: RestoredCheckpoint | undefined;
}

/** A recovery, as reported to a program. */
export interface RecoveryEvent extends Recovery {
  /** The global step at which training continues. */
  readonly step: number;
}

export interface RestoredCheckpoint {
  /** The name of the checkpoint, for example `model.ckpt-100`. */
  readonly checkpoint: string;
  readonly step: number;
  /** The tasks that hold a copy of it, for example `ps/0`. */
  readonly places: readonly string[];
  /** The tasks whose variables were restored; undefined: all. */
  readonly tasks: readonly string[] | undefined;
  /** The steps since the checkpoint, as far as known. */
  readonly steps: number | undefined;
  /** Whether these steps are made again: the global step went back with the variables. */
  readonly isRepeated: boolean;
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

  /** The recovery is complete. */
  end(ms: number): Recovery {
    const { mode = 'exact', onLostSteps } = this.#options;
    const restored = this.#restoredCheckpoint();
    if (restored?.isRepeated && restored.steps !== undefined) onLostSteps?.(restored.steps);
    const lost = [...this.#lost].sort();
    this.#lost.clear();
    return { mode, ms, lost, restored };
  }

  #restoredCheckpoint(): RestoredCheckpoint | undefined {
    if (!this.#restored) return undefined;
    const { manifest, places, tasks, hasGlobalStep = true } = this.#restored;
    return {
      checkpoint: manifest.prefix,
      step: manifest.step,
      places,
      tasks,
      steps: this.#step === undefined ? undefined : Math.max(0, this.#step - manifest.step),
      isRepeated: hasGlobalStep,
    };
  }

  close(): void {
    this.#stop();
  }
}

/** The line for the log. */
export function describeRecovery({ mode, ms, lost, restored }: Recovery): string {
  const parts = [
    `the cluster is complete again after ${(ms / 1000).toFixed(1)} s`,
    lost.length === 0 ? undefined : `lost ${lost.join(', ')}`,
    restored && `${mode} recovery: ${describeRestored(restored)}`,
  ];
  return `${parts.filter((part) => part !== undefined).join('; ')}; training continues`;
}

function describeRestored({ checkpoint, places, tasks, steps, isRepeated }: RestoredCheckpoint): string {
  const where = tasks === undefined ? '' : ` on ${tasks.join(', ')} only`;
  const what = `restored ${checkpoint}${where} from ${places.join(', ')}`;
  if (steps === undefined) return what;
  return isRepeated ? `${what}; ${steps} steps are repeated` : `${what}; ${steps} steps are lost there`;
}
