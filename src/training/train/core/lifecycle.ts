/**
 * The life of one training of a task, as a state machine without I/O. Its caller carries out the work and reports each
 * result as an event.
 *
 *   open → ready → stopping → last save → end hooks → closing → finished
 *     └──────┴────────┴───────────┴───────────┴─────────↗
 *
 * Works of the end follow each other in one order. A failure skips those that need trained values or make them final,
 * but never those that free what training holds: loops end, the session closes. The first error is that of training;
 * later ones are its consequences.
 */

export type LifecyclePhase =
  | 'open'
  | 'ready'
  | 'stopping'
  | 'last save'
  | 'end hooks'
  | 'closing'
  | 'finished';

export type Work =
  /** No step begins any more, and those in flight end. */
  | 'end steps'
  /** The loops beside the steps end, such as queue runners. */
  | 'end loops'
  /** Waits for records end, and those that were not used go back. */
  | 'end input'
  /** The other workers make their last steps. */
  | 'await others'
  | 'save'
  /** What follows the last save: exports, evaluations, outputs. */
  | 'results'
  | 'end hooks'
  /** After a failure: lets other tasks not wait for this one. */
  | 'abandon'
  | 'close'
  /** This task reports its end, and stays for the work of others. */
  | 'leave';

export interface EndPolicy {
  /** Loops that save too end before the last save; loops that hooks may need end after those. */
  readonly loopsEnd: 'before save' | 'after hooks';
  /** Whether the hooks end although the last save has failed. */
  readonly endsHooksUnsaved: boolean;
  /** Whether this task leaves although training has failed; else its caller reports that, or trains again. */
  readonly leavesFailed: boolean;
}

export interface Lifecycle {
  readonly phase: LifecyclePhase;
  readonly policy: EndPolicy;
  /** The work that is being done, and what may follow it. */
  readonly work: readonly Work[];
  readonly errors: readonly unknown[];
  /** Whether nothing has failed but the last save. */
  readonly isUnsaved: boolean;
}

export type LifecycleEvent =
  /** Every variable has a value. */
  | { readonly type: 'ready' }
  /** The program makes no more steps. */
  | { readonly type: 'stopped' }
  | { readonly type: 'done' }
  /** The start, a step or the current work has failed. */
  | { readonly type: 'failed'; readonly error: unknown };

export function beginLife(policy: EndPolicy): Lifecycle {
  return { phase: 'open', policy, work: [], errors: [], isUnsaved: false };
}

export function reduceLife(state: Lifecycle, event: LifecycleEvent): Lifecycle {
  const { phase, work, errors } = state;
  const isTraining = phase === 'open' || phase === 'ready';
  switch (event.type) {
    case 'ready':
      return phase === 'open' ? { ...state, phase: 'ready' } : state;
    case 'stopped':
      return isTraining ? next(state, endOf(state)) : state;
    case 'done':
      return isTraining ? state : next(state, work.slice(1));
    case 'failed': {
      if (phase === 'finished') return state;
      const isUnsaved = phase === 'last save' || work[0] === 'await others';
      const after = {
        ...state,
        errors: [...errors, event.error],
        isUnsaved: errors.length === 0 && isUnsaved,
      };
      return next(after, isTraining ? endOf(state) : work.slice(1));
    }
  }
}

/** Everything that may be due at the end, in order. */
function endOf({ phase, policy }: Lifecycle): readonly Work[] {
  // There were no steps, no records and no report.
  if (phase === 'open') return ['abandon', 'end loops', 'close'];
  const saving = ['end input', 'await others', 'save', 'results', 'end hooks', 'abandon'] as const;
  return policy.loopsEnd === 'before save'
    ? ['end steps', 'end loops', ...saving, 'close', 'leave']
    : ['end steps', ...saving, 'end loops', 'close', 'leave'];
}

/** Goes to the first of these works that is due. */
function next(state: Lifecycle, work: readonly Work[]): Lifecycle {
  const at = work.findIndex((one) => isDue(state, one));
  const rest = at < 0 ? [] : work.slice(at);
  return { ...state, work: rest, phase: rest[0] ? phaseOf(rest[0], state.policy) : 'finished' };
}

function isDue({ errors, isUnsaved, policy }: Lifecycle, work: Work): boolean {
  const hasFailed = errors.length > 0;
  switch (work) {
    case 'await others':
    case 'save':
    case 'results':
      return !hasFailed;
    case 'end hooks':
      return !hasFailed || (isUnsaved && policy.endsHooksUnsaved);
    case 'abandon':
      return hasFailed;
    case 'leave':
      return !hasFailed || policy.leavesFailed;
    default:
      return true;
  }
}

function phaseOf(work: Work, { loopsEnd }: EndPolicy): LifecyclePhase {
  switch (work) {
    case 'end loops':
      return loopsEnd === 'before save' ? 'stopping' : 'closing';
    case 'end steps':
    case 'end input':
    case 'await others':
      return 'stopping';
    case 'save':
    case 'results':
      return 'last save';
    case 'end hooks':
      return 'end hooks';
    default:
      return 'closing';
  }
}
