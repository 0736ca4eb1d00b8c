/**
 * Long-running orders and requests. The first call starts the work; further calls poll its outcome and are answered
 * within seconds, so that no connection is idle for minutes and the caller sees progress. Work that is no longer polled
 * is aborted.
 */
import { setMaxListeners } from 'node:events';
import * as v from 'valibot';
import { ShoalError } from '../../../base/errors/errors.js';
import type { OrderHandler } from '../agent/agent-options.js';
import { validated } from '../agent/wire.js';
import type { Identity } from '../membership/map.js';
import type { TaskId } from '../spec/task-id.js';
import type { ClusterTask } from './cluster-task.js';

export type LongWork = (payload: unknown, context: WorkContext) => Promise<unknown>;

export interface WorkContext {
  readonly signal: AbortSignal;
  /** Reports the bytes processed so far. */
  readonly onProgress: (bytes: number) => void;
  /** The calling task; for an order, the chief. */
  readonly orderedBy: Identity;
}

const WAIT_MS = 5_000;
/** A caller that has not polled for this long is considered gone. */
const POLL_TIMEOUT_MS = 60_000;
/** How many ids of stopped orders are remembered, for a `start` that arrives after its `stop`. */
const MAX_STOPPED = 1000;

const AskSchema = v.variant('do', [
  v.object({ do: v.literal('start'), id: v.pipe(v.string(), v.maxLength(200)), payload: v.unknown() }),
  v.object({ do: v.literal('wait'), id: v.pipe(v.string(), v.maxLength(200)) }),
  v.object({ do: v.literal('stop'), id: v.pipe(v.string(), v.maxLength(200)) }),
]);

const AnswerSchema = v.variant('state', [
  v.object({ state: v.literal('running'), bytes: v.number() }),
  v.object({ state: v.literal('done'), result: v.unknown() }),
]);

interface Running {
  readonly outcome: Promise<unknown>;
  readonly controller: AbortController;
  bytes: number;
  timer: NodeJS.Timeout;
}

/** Registers a long order at a task: only the chief may give it. */
export function onLongOrder(task: ClusterTask, name: string, work: LongWork): void {
  task.onOrder(name, longHandler(task, name, work));
}

/** Registers a long request at a task: any other task may make it. */
export function onLongRequest(task: ClusterTask, name: string, work: LongWork): void {
  task.onRequest(name, longHandler(task, name, work));
}

function longHandler(task: ClusterTask, name: string, work: LongWork): OrderHandler {
  const running = new Map<string, Running>();
  const stopped = new Set<string>();
  const rememberStopped = (id: string) => {
    stopped.add(id);
    for (const oldest of stopped) {
      if (stopped.size <= MAX_STOPPED) break;
      stopped.delete(oldest);
    }
  };
  const forget = (id: string) => {
    const entry = running.get(id);
    if (!entry) return;
    clearTimeout(entry.timer);
    entry.controller.abort('its caller stopped polling');
    running.delete(id);
  };
  const pollTimer = (id: string) => setTimeout(() => forget(id), POLL_TIMEOUT_MS).unref();
  return async (payload, { from, work: admission }) => {
    const ask = validated(AskSchema, payload, `call ${name}`);
    if (ask.do === 'stop') {
      rememberStopped(ask.id);
      forget(ask.id);
      return { state: 'done', result: null };
    }
    // `start` and `stop` may use different connections and arrive in reverse order.
    if (stopped.has(ask.id)) {
      throw new ShoalError('SHOAL_ABORTED', `${name} ${ask.id} was stopped before it could start`, {
        task: task.task,
      });
    }
    if (ask.do === 'start' && !running.has(ask.id)) {
      const controller = new AbortController();
      setMaxListeners(0, controller.signal);
      const entry = { controller, bytes: 0, timer: pollTimer(ask.id) } as Running;
      const onProgress = (bytes: number) => {
        entry.bytes = bytes;
      };
      const outcome = work(ask.payload, { signal: controller.signal, onProgress, orderedBy: from });
      outcome.catch(() => undefined);
      admission.hold(outcome);
      admission.signal.addEventListener('abort', () => controller.abort(admission.signal.reason), {
        once: true,
      });
      running.set(ask.id, Object.assign(entry, { outcome }));
    }
    const entry = running.get(ask.id);
    if (!entry) {
      throw new ShoalError('SHOAL_NOT_FOUND', `${task.task} is not running ${name} ${ask.id}`, {
        task: task.task,
        hint: 'The task was restarted, or it aborted the work because the caller stopped polling.',
      });
    }
    clearTimeout(entry.timer);
    entry.timer = pollTimer(ask.id);
    return answerOf(entry);
  };
}

/** The result, or the progress if the work does not end soon. */
async function answerOf(entry: Running) {
  let wait: NodeJS.Timeout | undefined;
  const later = new Promise<'later'>((resolve) => {
    wait = setTimeout(() => resolve('later'), WAIT_MS);
  });
  try {
    const result = await Promise.race([entry.outcome, later]);
    // A finished entry is kept for a while: the answer may get lost, and the caller polls again.
    return result === 'later' ? { state: 'running', bytes: entry.bytes } : { state: 'done', result };
  } finally {
    clearTimeout(wait);
  }
}

export interface LongOrderOptions {
  readonly signal?: AbortSignal;
  readonly onProgress?: (bytes: number) => void;
}

type Call = readonly [
  from: ClusterTask,
  to: TaskId,
  name: string,
  id: string,
  payload: unknown,
  options?: LongOrderOptions,
];

/** Gives a long order and waits for its result. It fails at once if the executing task is lost. */
export const giveLongOrder = (...call: Call): Promise<unknown> => callLong('order', ...call);

/** Makes a long request and waits for its result. It fails at once if the called task is lost. */
export const makeLongRequest = (...call: Call): Promise<unknown> => callLong('request', ...call);

async function callLong(
  kind: 'order' | 'request',
  from: ClusterTask,
  to: TaskId,
  name: string,
  id: string,
  payload: unknown,
  options: LongOrderOptions = {},
): Promise<unknown> {
  const lost = new AbortController();
  const unsubscribe = from.events.on('*', (event) => {
    const isGone =
      event.type === 'lost' || event.type === 'left' || (event.type === 'back' && event.replaced);
    if (isGone && event.member.task === to) lost.abort(`${to} was lost`);
  });
  const signal = AbortSignal.any([lost.signal, ...(options.signal ? [options.signal] : [])]);
  setMaxListeners(0, signal);
  const call = async (ask: object) =>
    validated(
      AnswerSchema,
      await from[kind](to, name, { id, ...ask }, { timeoutMs: 3 * WAIT_MS, signal, again: true }),
      `answer of ${to}`,
    );
  try {
    let answer = await call({ do: 'start', payload });
    while (answer.state === 'running') {
      options.onProgress?.(answer.bytes);
      answer = await call({ do: 'wait' });
    }
    return answer.result;
  } catch (error) {
    if (lost.signal.aborted) {
      throw new ShoalError('SHOAL_UNREACHABLE', `${to} was lost during ${name}`, { task: to, cause: error });
    }
    from[kind](to, name, { id, do: 'stop' }, { timeoutMs: 2000 }).catch(() => {
      // Unpolled work ends by itself.
    });
    throw error;
  } finally {
    unsubscribe();
  }
}
