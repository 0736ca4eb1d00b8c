/** Decides what follows from the end of a task's process. Pure: the launcher acts on the verdict. */
import { constants } from 'node:os';
import { EXIT } from '../../../base/errors/exit-codes.js';

export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface EndedRun {
  readonly job: string;
  readonly ending: Ending;
  readonly uptimeMs: number;
  /** Consecutive restarts of this task, after none of which it ran for `steadyMs` and training progressed. */
  readonly restarts: number;
  /** Whether training is over, and a restart would begin it again; default: false. */
  readonly isOver?: boolean;
}

export interface RestartRules {
  /** Consecutive restarts before the task has failed; 0 for none. */
  readonly maxRestarts: number;
  /** An error sooner than this after the start is treated as a bug in the program. */
  readonly steadyMs: number;
}

export type Verdict =
  | { readonly kind: 'finished' }
  | { readonly kind: 'restart'; readonly why: string }
  | { readonly kind: 'failed'; readonly code: number; readonly why: string };

export function judgeEnding(
  { job, ending, uptimeMs, restarts, isOver }: EndedRun,
  rules: RestartRules,
): Verdict {
  const why = describeEnding(ending);
  const code = exitCodeOfEnding(ending);
  if (code === EXIT.done && job !== 'ps') return { kind: 'finished' };
  const died =
    ending.signal !== null ||
    // A ps that the launcher did not stop has died.
    code === EXIT.done ||
    code === EXIT.retry ||
    code === EXIT.interrupted ||
    // An error soon after the start would recur.
    (!isOver && code !== EXIT.usage && code !== EXIT.superseded && uptimeMs >= rules.steadyMs);
  if (!died) return { kind: 'failed', code, why };
  if (restarts < rules.maxRestarts) return { kind: 'restart', why };
  const detail = rules.maxRestarts === 0 ? 'restarts are off' : `it failed again after ${restarts} restarts`;
  return { kind: 'failed', code: code === EXIT.done ? EXIT.error : code, why: `${why}; ${detail}` };
}

export function exitCodeOfEnding({ code, signal }: Ending): number {
  if (signal === null) return code ?? EXIT.error;
  return 128 + (constants.signals[signal] ?? 0);
}

export function describeEnding({ code, signal }: Ending): string {
  return signal === null ? `exited with ${code ?? 'no code'}` : `was killed by ${signal}`;
}
