/**
 * Whether a synchronous step can still be made. The chief looks every few seconds at a step that takes long:
 *
 * - While a worker that is present computes, its gradients will come, however long that takes.
 * - While the chief's run has the gradients of all devices, it applies them.
 * - If all workers that are present wait for the next step, and the chief's run lacks gradients, nobody will add any: they
 *   were taken by a run that failed, or dropped. The same view at several looks then is a stall, and the chief begins a
 *   recovery. Views between two messages look the same for a moment, so it is not one at the first look. Waits of this kind
 *   that ended by themselves lengthen this time.
 *
 * A pure reducer, `(state, event) → (state, effect)`: the caller reads the marks, and has the clock.
 */

export interface SyncWorker {
  readonly task: string;
  /** Away: lost, or has left. Over: it makes no more steps. */
  readonly status: 'present' | 'away' | 'over';
  /** Whether it has added its gradients and waits for a token. */
  readonly waits: boolean;
  /** The tokens that it has not taken. */
  readonly tokens: number;
}

export interface SyncDevice {
  readonly name: string;
  /** Whether the chief's current run has taken the gradients of this device. */
  readonly isTaken: boolean;
  /** The gradients that are there. */
  readonly gradients: number;
}

/** What the chief sees of a step. */
export interface SyncView {
  readonly step: number;
  /** The gradients that a step needs. */
  readonly required: number;
  /** Whether it needs one of each worker. */
  readonly needsAll: boolean;
  readonly workers: readonly SyncWorker[];
  readonly devices: readonly SyncDevice[];
}

export type SyncStallEvent =
  | { readonly type: 'seen'; readonly at: number; readonly view: SyncView }
  /** A step was made, or started again after a recovery. */
  | { readonly type: 'made'; readonly at: number };

export type SyncStallEffect =
  /** Nothing to do: what the step waits for. */
  | { readonly type: 'wait'; readonly what: string }
  /** No progress is possible. */
  | { readonly type: 'recover'; readonly what: string }
  /** A worker that the step needs makes no more: training is over. */
  | { readonly type: 'end'; readonly what: string };

export interface SyncStallState {
  /** The time between two looks. */
  readonly lookMs: number;
  /** The view in which nobody will add gradients, and since when it is the same. */
  readonly standing: { readonly view: string; readonly since: number } | undefined;
  /** The longest time of such views that ended by themselves. */
  readonly longestMs: number;
}

/** So many looks at the same view. */
const LOOKS = 2;
/** So many times longer than any before. */
const TIMES = 3;

export const newSyncStall = (lookMs: number): SyncStallState => ({
  lookMs,
  standing: undefined,
  longestMs: 0,
});

export function reduceSyncStall(
  state: SyncStallState,
  event: SyncStallEvent,
): { readonly state: SyncStallState; readonly effect: SyncStallEffect | undefined } {
  if (event.type === 'made') return { state: moved(state, event.at), effect: undefined };
  const { at, view } = event;
  const going = progressOf(view);
  if (going !== undefined) return { state: moved(state, at), effect: { type: 'wait', what: going } };
  const seen = JSON.stringify(view);
  if (state.standing?.view !== seen) {
    const next = { ...moved(state, at), standing: { view: seen, since: at } };
    return { state: next, effect: { type: 'wait', what: 'for the gradients of the step' } };
  }
  const what = describe(view);
  if (at - state.standing.since < Math.max(LOOKS * state.lookMs, TIMES * state.longestMs))
    return { state, effect: { type: 'wait', what: 'for the gradients of the step' } };
  const isOver = view.needsAll && view.workers.some(({ status }) => status === 'over');
  return { state: { ...state, standing: undefined }, effect: { type: isOver ? 'end' : 'recover', what } };
}

function moved({ standing, ...state }: SyncStallState, at: number): SyncStallState {
  const longestMs = standing ? Math.max(state.longestMs, at - standing.since) : state.longestMs;
  return { ...state, standing: undefined, longestMs };
}

/** What will make progress, or could; undefined if nothing will. */
function progressOf({ needsAll, workers, devices }: SyncView): string | undefined {
  const present = workers.filter(({ status }) => status === 'present');
  const computing = present.filter(({ waits }) => !waits);
  if (computing.length > 0) return `for the gradients of ${namesOf(computing)}`;
  if (devices.every(({ isTaken }) => isTaken)) return 'for the ps, which apply it';
  const holders = present.filter(({ tokens }) => tokens > 0);
  if (holders.length > 0) return `for ${namesOf(holders)} to take a token`;
  const away = workers.filter(({ status }) => status === 'away');
  if (present.length === 0) return `for ${namesOf(workers)} to come back`;
  if (away.length > 0 && needsAll) return `for ${namesOf(away)} to come back`;
  return undefined;
}

function describe({ step, required, workers, devices }: SyncView): string {
  const parts = workers.map(({ task, status }) => {
    if (status === 'present') return `${task} has added its gradients and waits for the next step`;
    return status === 'away' ? `${task} is away` : `${task} makes no more steps`;
  });
  const lacking = devices
    .filter(({ isTaken }) => !isTaken)
    .map(({ name, gradients }) => `${name} has ${gradients} of ${required} gradients`);
  return `step ${step} makes no progress: ${[...parts, ...lacking].join('; ')}`;
}

const namesOf = (workers: readonly SyncWorker[]): string => workers.map(({ task }) => task).join(', ');
