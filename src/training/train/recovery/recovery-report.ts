/** What a recovery of a task was: what failed, what was restored, from where, and what it cost. */
import type { JobEventData } from '../../../base/text/job-event.js';
import type { Manifest } from '../../../distributed/checkpoint/format/manifest.js';
import { parseTaskId, taskLabel } from '../../../distributed/cluster/spec/task-id.js';
import type { ClusterTask } from '../../../distributed/cluster/task/cluster-task.js';
import type { RecoveryMode } from './recovery-mode.js';

/**
 * The phases of a recovery, in order: until all ps are back; until the chief knows which checkpoint to restore; until it
 * is restored; until steps can run. Only the chief has the two in the middle, and only if something is restored.
 */
export const RECOVERY_PHASES = ['wait', 'find', 'restore', 'resume'] as const;
export type RecoveryPhase = (typeof RECOVERY_PHASES)[number];

export interface RecoveryReportOptions {
  readonly task: Pick<ClusterTask, 'events' | 'members'>;
  /** Default: exact. */
  readonly mode?: RecoveryMode;
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
  /** The highest step known when the recovery began: reported by a task, or read before the restore. */
  #step: number | undefined;
  #restored: Restored | undefined;
  #isActive = false;
  readonly #now: () => number;
  /** When the phases of the current recovery ended. */
  #ended: Partial<Record<RecoveryPhase, number>> = {};
  #last: Partial<Record<RecoveryPhase, number>> = {};

  constructor(options: RecoveryReportOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#stop = options.task.events.on('*', (event) => {
      if (event.type !== 'lost' && event.type !== 'back') return;
      const { task } = event.member;
      const isPs = parseTaskId(task).job === 'ps';
      if (event.type === 'lost' || event.replaced) this.#lost.add(task);
      if (event.type === 'lost') return;
      if (isPs) this.#end('wait');
      // Steps do not need the other tasks: it was no part of a recovery.
      else if (!this.#isActive) this.#lost.delete(task);
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
    this.#isActive = true;
    this.#step = this.#highestStep();
    this.#restored = undefined;
    this.#ended = {};
  }

  /** Training had reached this step, read from its variable before a restore. */
  reached(step: number | undefined): void {
    if (step !== undefined) this.#step = Math.max(step, this.#step ?? 0);
  }

  #highestStep(): number | undefined {
    const steps = this.#options.task.members().flatMap(({ step }) => step ?? []);
    return steps.length === 0 ? undefined : Math.max(...steps);
  }

  /**
   * This task is ready for its first step. If it has restored a checkpoint although others were training, as a chief that
   * was lost together with a ps, that is the end of their recovery: returns what was restored, with the steps since.
   */
  started(): RestoredCheckpoint | undefined {
    this.reached(this.#highestStep());
    const restored = this.#restoredCheckpoint();
    this.#restored = undefined;
    this.#step = undefined;
    if (!restored?.steps) return undefined;
    this.#options.onLostSteps?.(restored.steps);
    return restored;
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

  /** The recovery is complete. */
  end(ms: number): Recovery {
    this.#end('resume');
    this.#isActive = false;
    const { mode = 'exact', onLostSteps, onPhases } = this.#options;
    const phases = this.#phases(ms);
    this.#last = phases;
    onPhases?.(phases);
    const restored = this.#restoredCheckpoint();
    if (restored?.isRepeated && restored.steps !== undefined) onLostSteps?.(restored.steps);
    const lost = [...this.#lost].sort();
    this.#lost.clear();
    return { mode, ms, lost, restored };
  }

  /** The durations of the phases of the last recovery, in milliseconds. */
  get phases(): Readonly<Partial<Record<RecoveryPhase, number>>> {
    return this.#last;
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

/** The data of the line for the log. */
export function recoveryData(recovery: Recovery, step: number | undefined): JobEventData {
  const { mode, ms, lost, restored } = recovery;
  return {
    event: 'recovery',
    step: step ?? (restored?.isRepeated ? restored.step : undefined),
    seconds: ms / 1000,
    mode,
    lost: lost.map(taskLabel),
    restored,
  };
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

export function describeRestored({
  checkpoint,
  places,
  tasks,
  steps,
  isRepeated,
}: RestoredCheckpoint): string {
  const where = tasks === undefined ? '' : ` on ${tasks.join(', ')} only`;
  const what = `restored ${checkpoint}${where} from ${places.join(', ')}`;
  if (steps === undefined) return what;
  return isRepeated ? `${what}; ${steps} steps are repeated` : `${what}; ${steps} steps are lost there`;
}
