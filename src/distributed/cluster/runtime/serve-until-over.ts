/**
 * The main loop of a ps: it serves until training is over and the evaluator, if any, has left. For an evaluator that is
 * dead, or that the specification lists and that never joined, it waits `evaluatorMs`.
 */
import { describeError, ShoalError } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import { isPresent } from '../membership/types.js';
import type { ClusterSpec } from '../spec/cluster-spec.js';
import { GRACE_MS } from '../spec/config.js';
import { parseTaskId, type TaskId } from '../spec/task-id.js';
import type { ClusterTask } from '../task/cluster-task.js';
import type { Stopped } from '../task/finished-workers.js';
import { logLoss } from '../task/log-loss.js';
import type { TrainingEnd, TrainingState } from '../task/training-end.js';

export interface JoinClusterOptions {
  /** Makes the task leave: after the other tasks, or after `graceMs`. Default: none. */
  readonly signal?: AbortSignal;
  /** Receives messages about lost and returned tasks; default: none. */
  readonly log?: Log;
  /** How long the task serves the others after the signal; default: 30 s. */
  readonly graceMs?: number;
  /**
   * Called after the signal if other tasks run; when it resolves with true, the task leaves without waiting for the
   * others. Default: none.
   */
  readonly beforeLeave?: (graceMs: number) => Promise<boolean>;
  /** How long to wait for an absent evaluator after all workers left; default: 30 s. */
  readonly evaluatorMs?: number;
}

/** What it serves: a task, and when training is over. */
interface Served {
  readonly task: ClusterTask;
  readonly spec: ClusterSpec;
  readonly training: TrainingEnd;
}

const LOOK_MS = 250;
/** When the wait for lost workers, or for the first one, is logged first, and how often after that. */
const FIRST_LINE_MS = 3000;
const FIRST_EMPTY_LINE_MS = 20_000;
const LINE_MS = 60_000;

/**
 * Rejects with SHOAL_WORKERS_LOST when all workers died or failed and none came back, or the chief has failed; with
 * SHOAL_ABORTED when all were interrupted.
 */
export function serveUntilOver(
  { task, spec, training }: Served,
  { signal, log, graceMs = GRACE_MS, evaluatorMs = 30_000, beforeLeave }: JoinClusterOptions,
): Promise<void> {
  const others = () => task.members().filter((member) => parseTaskId(member.task).job !== 'ps');
  const reporter = new WaitReporter(task.task, log);
  const evaluators = new EvaluatorWait(task, spec, evaluatorMs);
  return new Promise((resolve, reject) => {
    const look = () => {
      // After the stop signal it waits only for tasks that are alive, which may be saving.
      if (signal?.aborted) {
        if (!others().some(({ status }) => isPresent(status))) end();
        return;
      }
      const state = training.state();
      reporter.update(state);
      if (state.kind !== 'over') evaluators.restart();
      else if (evaluators.isOver()) end(problemOf(task, state));
    };
    const end = (error?: ShoalError) => {
      unsubscribe();
      clearTimeout(grace);
      clearInterval(rhythm);
      signal?.removeEventListener('abort', stop);
      if (error) reject(error);
      else resolve();
    };
    let grace: NodeJS.Timeout | undefined;
    const stop = () => {
      grace = setTimeout(end, graceMs);
      if (others().some(({ status }) => isPresent(status))) {
        void beforeLeave?.(graceMs).then(
          (isReady) => isReady && end(),
          (error: unknown) => log?.(describeError(error), 'warn'),
        );
      }
      look();
    };
    const unsubscribe = task.events.on('*', (event) => {
      if (log) logLoss(event, log);
      look();
    });
    const rhythm = setInterval(look, LOOK_MS);
    if (signal?.aborted) stop();
    else {
      signal?.addEventListener('abort', stop, { once: true });
      look();
    }
  });
}

/** Why training is over before its end; undefined if it was finished. */
function problemOf(
  { task, chief }: Pick<ClusterTask, 'task' | 'chief'>,
  { lost, stopped, finished }: Extract<TrainingState, { kind: 'over' }>,
): ShoalError | undefined {
  const by = (how: Stopped) => stopped.filter((one) => one.how === how).map((one) => one.task);
  const failed = by('failed');
  // Others may have made the last step, but nobody has saved it.
  if (finished && !failed.some((id) => id === chief)) return undefined;
  if (!finished && lost.length + failed.length === 0) {
    return new ShoalError(
      'SHOAL_ABORTED',
      `${task} ends: training was interrupted, ${by('interrupted').join(', ')} stopped before the end`,
      { task, hint: 'Start the cluster again to train further; it resumes from the last checkpoint.' },
    );
  }
  const gone = [
    ...(lost.length > 0 ? [`${lost.join(', ')} died or left before the end, and did not come back`] : []),
    ...(failed.length > 0 ? [`${failed.join(', ')} failed before the end`] : []),
  ].join('; ');
  return new ShoalError('SHOAL_WORKERS_LOST', `${task} has no workers left: ${gone}`, {
    task,
    hint: 'Read their logs, and restart the cluster; training resumes from the last checkpoint. lost_worker_ms sets how long a ps waits.',
  });
}

/** The wait for evaluators after training: until they have left, or are absent for `evaluatorMs`. */
class EvaluatorWait {
  readonly #task: ClusterTask;
  readonly #specified: readonly TaskId[];
  readonly #absentMs: number;
  #since: number | undefined;

  constructor(task: ClusterTask, spec: ClusterSpec, absentMs: number) {
    this.#task = task;
    this.#specified = spec.tasks.map(({ id }) => id).filter(isEvaluator);
    this.#absentMs = absentMs;
  }

  restart(): void {
    this.#since = undefined;
  }

  isOver(): boolean {
    const heard = this.#task.members().map((member) => member.task);
    const all = [...new Set([...this.#specified, ...heard.filter(isEvaluator)])];
    const statuses = all.map((id) => this.#task.member(id)?.status);
    if (statuses.some((status) => status && isPresent(status))) this.restart();
    else if (statuses.every((status) => status === 'left')) return true;
    else {
      this.#since ??= performance.now();
      return performance.now() - this.#since >= this.#absentMs;
    }
    return false;
  }
}

const isEvaluator = (id: TaskId): boolean => parseTaskId(id).job === 'evaluator';

/** Logs which workers a ps waits for, and for how much longer. */
class WaitReporter {
  #kind: TrainingState['kind'] = 'training';
  #since = 0;
  #next = 0;

  constructor(
    readonly task: TaskId,
    readonly log: ((line: string) => void) | undefined,
  ) {}

  update(state: TrainingState): void {
    if (state.kind !== this.#kind) {
      this.#kind = state.kind;
      this.#since = performance.now();
      this.#next = state.kind === 'empty' ? FIRST_EMPTY_LINE_MS : FIRST_LINE_MS;
    }
    const waits = state.kind === 'awaiting' || state.kind === 'empty';
    const waitedMs = performance.now() - this.#since;
    if (!waits || waitedMs < this.#next) return;
    this.#next += LINE_MS;
    if (state.kind === 'empty') {
      this.log?.(`${this.task} waits for workers: none has joined for ${Math.round(waitedMs / 1000)} s`);
      return;
    }
    const seconds = Math.ceil(state.leftMs / 1000);
    const tasks = state.tasks.join(', ');
    const why = state.atStart ? 'failed at the start, before the first step' : 'died or preempted';
    this.log?.(
      `${this.task} waits for ${tasks} to restart: ${why}, and no other worker is alive; exits in ${seconds} s`,
    );
  }
}
