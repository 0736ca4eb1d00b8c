/** What the end of a task's process means for the cluster. Pure: the launcher acts on the verdict. */
import { constants } from 'node:os';
import { EXIT } from '../../errors/exit-codes.js';

export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface Life {
  readonly job: string;
  readonly ending: Ending;
  readonly uptimeMs: number;
  /** Relaunches of this task so far that did not lead to a steady life. */
  readonly restarts: number;
}

export interface RestartRules {
  /** Relaunches in a row before the cluster gives up; 0 for none. */
  readonly maxRestarts: number;
  /** A life of this length is steady: it was not the program's first steps that failed. */
  readonly steadyMs: number;
}

export type Verdict =
  | { readonly kind: 'finished' }
  | { readonly kind: 'restart'; readonly why: string }
  | { readonly kind: 'failed'; readonly code: number; readonly why: string };

export function judgeEnding({ job, ending, uptimeMs, restarts }: Life, rules: RestartRules): Verdict {
  const why = describeEnding(ending);
  const code = exitCodeOf(ending);
  if (code === EXIT.done && job !== 'ps') return { kind: 'finished' };
  const died =
    ending.signal !== null ||
    // A ps is never done before the launcher says so.
    code === EXIT.done ||
    code === EXIT.retry ||
    code === EXIT.interrupted ||
    // An error soon after the start is one of the program: it would come again.
    (code !== EXIT.usage && code !== EXIT.superseded && uptimeMs >= rules.steadyMs);
  if (!died) return { kind: 'failed', code, why };
  if (restarts < rules.maxRestarts) return { kind: 'restart', why };
  const given = rules.maxRestarts === 0 ? 'restarts are off' : `relaunched ${restarts} times in vain`;
  return { kind: 'failed', code: code === EXIT.done ? EXIT.error : code, why: `${why}; ${given}` };
}

export function exitCodeOf({ code, signal }: Ending): number {
  if (signal === null) return code ?? EXIT.error;
  return 128 + (constants.signals[signal] ?? 0);
}

export function describeEnding({ code, signal }: Ending): string {
  return signal === null ? `exited with ${code ?? 'no code'}` : `was ended by ${signal}`;
}
