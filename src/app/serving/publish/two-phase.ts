/**
 * Changes several serving processes together: all prepare, then all commit. If one cannot prepare, none commits. A target
 * that is lost after the others were told to commit is reported; it gets the change when it is published to again.
 */
import { sleep, withDeadline } from '../../../base/async/deadline.js';
import { isShoalError, messageOf, ShoalError } from '../../../base/errors/errors.js';
import { isTransient } from '../../../distributed/cluster/agent/http-peer.js';
import type { PublishTarget } from './target.js';
import type { BeginReply, BeginRequest } from './wire.js';

/** What became of a target. */
export type Outcome =
  /** It has changed. */
  | { readonly kind: 'done' }
  /** There was nothing to change, for this reason. */
  | { readonly kind: 'settled'; readonly why: 'has' | 'withdrawn' | 'older' | 'conflict' }
  /** It does not answer. */
  | { readonly kind: 'absent'; readonly error: ShoalError };

/** Why a target has nothing to change. */
export type Refusal = Exclude<BeginReply, { outcome: 'open' | 'busy' }>;

export interface Phases {
  /** Asked for before each attempt. */
  readonly request: (signal: AbortSignal) => Promise<BeginRequest>;
  /** Everything between begin and commit. */
  readonly prepare: (target: PublishTarget, id: string, signal: AbortSignal) => Promise<void>;
  /** Throws if a target's refusal is a failure of the whole. */
  readonly judge: (target: PublishTarget, refusal: Refusal) => void;
  /** Whether the change is made without targets that do not answer. */
  readonly skipsAbsent: boolean;
  readonly deadlineMs: number;
  readonly signal?: AbortSignal | undefined;
  readonly onPhase?: ((target: PublishTarget, phase: 'waiting' | 'committing') => void) | undefined;
}

const TOUCH_MS = 3000;
const BUSY_MS = 1000;
/** How long a commit may take, which the deadline and a signal do not cut short. */
const COMMIT_MS = 30_000;

/** Resolves with the outcome of each target; rejects if nothing was changed anywhere. */
export async function changeAll(
  targets: readonly PublishTarget[],
  phases: Phases,
): Promise<ReadonlyMap<PublishTarget, Outcome>> {
  const end = performance.now() + phases.deadlineMs;
  let first: readonly PublishTarget[] = targets;
  for (;;) {
    const late = deadlineSignal(end, phases);
    const open: Open = new Map();
    try {
      const rest = targets.filter((target) => !first.includes(target));
      const { outcomes, waitsFor } = await beginAll([first, rest], open, phases, late.signal);
      const [waitFor] = waitsFor.values();
      if (waitFor === undefined) {
        await prepareAll(open, outcomes, phases, late.signal);
        await commitAll(open, outcomes, phases);
        return outcomes;
      }
      await abortAll(open);
      // Those that make the others wait begin first: the others do not begin in vain each time.
      first = [...waitsFor.keys()];
      for (const target of first) phases.onPhase?.(target, 'waiting');
      // At random, so that two publishers do not meet again.
      await sleep(BUSY_MS * (0.5 + Math.random()), phases.signal);
      if (performance.now() > end) throw waitFor;
    } catch (error) {
      await abortAll(open);
      throw error;
    } finally {
      late.clear();
    }
  }
}

type Open = Map<PublishTarget, string>;
type Outcomes = Map<PublishTarget, Outcome>;

function deadlineSignal(end: number, { signal, deadlineMs }: Phases) {
  const controller = new AbortController();
  const seconds = Math.round(deadlineMs / 1000);
  const late = () => controller.abort(new ShoalError('SHOAL_TIMEOUT', `not done within ${seconds} s`));
  const timer = setTimeout(late, Math.max(1, end - performance.now()));
  const abort = () => controller.abort(signal?.reason);
  if (signal?.aborted) abort();
  signal?.addEventListener('abort', abort, { once: true });
  return {
    signal: controller.signal,
    clear: () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    },
  };
}

/**
 * Adds the targets that take part to `open`, those of a group together, a group after the other. `waitsFor` has the
 * targets that were not ready, and why: then later groups have not begun.
 */
async function beginAll(
  groups: readonly (readonly PublishTarget[])[],
  open: Open,
  { request, judge, skipsAbsent }: Phases,
  signal: AbortSignal,
): Promise<{ readonly outcomes: Outcomes; readonly waitsFor: ReadonlyMap<PublishTarget, ShoalError> }> {
  const outcomes: Outcomes = new Map();
  const waitsFor = new Map<PublishTarget, ShoalError>();
  const what = await request(signal).catch((error: unknown) => {
    throw signal.aborted ? reasonOf(signal, groups.flat()) : error;
  });
  const failures: unknown[] = [];
  const beginOne = async (target: PublishTarget): Promise<void> => {
    try {
      const reply = await target.begin(what, signal);
      if (reply.outcome === 'open') open.set(target, reply.id);
      else if (reply.outcome === 'busy')
        waitsFor.set(
          target,
          new ShoalError('SHOAL_UNREACHABLE', `${target.address} is busy with a publication by ${reply.by}`),
        );
      else {
        outcomes.set(target, { kind: 'settled', why: reply.outcome });
        judge(target, reply);
      }
    } catch (error) {
      if (signal.aborted || !isAbsence(error)) failures.push(error);
      else if (skipsAbsent) outcomes.set(target, { kind: 'absent', error });
      else waitsFor.set(target, error);
    }
  };
  for (const group of groups) {
    await Promise.all(group.map(beginOne));
    if (failures.length > 0) throw signal.aborted ? reasonOf(signal, groups.flat()) : failures[0];
    if (waitsFor.size > 0) break;
  }
  return { outcomes, waitsFor };
}

async function prepareAll(
  open: Open,
  outcomes: Outcomes,
  phases: Phases,
  signal: AbortSignal,
): Promise<void> {
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  const waitsFor = new Set(open.keys());
  let failure: unknown;
  const prepareOne = async ([target, id]: readonly [PublishTarget, string]): Promise<void> => {
    const touching = keepTouching(target, id, either);
    try {
      await phases.prepare(target, id, either);
      waitsFor.delete(target);
    } catch (error) {
      if (phases.skipsAbsent && isAbsence(error) && !either.aborted) {
        open.delete(target);
        outcomes.set(target, { kind: 'absent', error });
        return;
      }
      failure ??= signal.aborted ? reasonOf(signal, waitsFor) : error;
      stop.abort();
    } finally {
      prepared.push(touching);
    }
  };
  // A target that is prepared is touched until all are.
  const prepared: (() => Promise<void>)[] = [];
  await Promise.all([...open].map(prepareOne));
  await Promise.all(prepared.map((end) => end()));
  if (failure !== undefined) throw failure;
}

/** Until the returned function is called. */
function keepTouching(target: PublishTarget, id: string, signal: AbortSignal): () => Promise<void> {
  const end = new AbortController();
  const either = AbortSignal.any([signal, end.signal]);
  const loop = async (): Promise<void> => {
    while (!either.aborted) {
      await sleep(TOUCH_MS, either);
      await target.touch(id, either).catch(() => 'failed');
    }
  };
  const running = loop().catch(() => {});
  return async () => {
    end.abort();
    await running;
  };
}

async function commitAll(open: Open, outcomes: Outcomes, { onPhase }: Phases): Promise<void> {
  const commitOne = async ([target, id]: readonly [PublishTarget, string]): Promise<void> => {
    onPhase?.(target, 'committing');
    const signal = AbortSignal.timeout(COMMIT_MS);
    try {
      await target.reach(id, 'committed', signal);
      outcomes.set(target, { kind: 'done' });
    } catch (cause) {
      const error = isShoalError(cause) ? cause : new ShoalError('SHOAL_INTERNAL', messageOf(cause));
      outcomes.set(target, { kind: 'absent', error });
    }
  };
  await Promise.all([...open].map(commitOne));
}

/** A target that does not answer ends it by itself, when it has heard nothing for a while. */
async function abortAll(open: Open): Promise<void> {
  const abort = ([target, id]: readonly [PublishTarget, string]) =>
    withDeadline(target.abort(id), `the abort on ${target.address}`, { timeoutMs: 5000 }).catch(() => {});
  await Promise.all([...open].map(abort));
}

/** The machine or its process is away, or was restarted meanwhile: nothing is wrong with the version. */
const isAbsence = (error: unknown): error is ShoalError =>
  isTransient(error) || (isShoalError(error, 'SHOAL_NOT_FOUND') && /restarted meanwhile/.test(error.message));

function reasonOf({ reason }: AbortSignal, waitsFor: Iterable<PublishTarget>): ShoalError {
  const names = [...waitsFor].map(({ address }) => address).join(', ');
  if (isShoalError(reason, 'SHOAL_TIMEOUT'))
    return new ShoalError('SHOAL_TIMEOUT', `${reason.message}: waiting for ${names}`);
  return new ShoalError('SHOAL_ABORTED', 'it was stopped', { cause: reason });
}
