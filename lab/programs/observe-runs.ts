/**
 * Reports whose runs a ps executes, and lets a task stop at its runs. The fault points, read from SHOAL_FAULT as those of
 * src/base/async/fault-point.ts:
 *
 *   lab.initialize   a worker is about to run the initializers of variables
 *   lab.run          a worker is about to make a run
 *   lab.stage        a ps is about to execute a run of another task (engine direct)
 */
import type { Identity } from '../../src/distributed/cluster/membership/map.js';
import { ClusterSession } from '../../src/distributed/cluster/runtime/cluster-session.js';
import { ClusterTask } from '../../src/distributed/cluster/task/cluster-task.js';
import { HostedStage } from '../../src/distributed/engine/host/hosted-stage.js';
import type { TaskEvent } from '../soak/task-log.js';

const passed = new Map<string, number>();

/** Stops this process, once. */
function stopAt(point: string): void {
  const fault = process.env.SHOAL_FAULT ?? '';
  if (!fault.startsWith(point)) return;
  const count = (passed.get(point) ?? 0) + 1;
  passed.set(point, count);
  const [, name, wanted] = /^([^=#]+)(?:#(\d+))?=stop$/.exec(fault) ?? [];
  if (name !== point || (wanted !== undefined && Number(wanted) !== count)) return;
  process.env.SHOAL_FAULT = '';
  process.kill(process.pid, 'SIGSTOP');
}

const isInitializer = (fetch: unknown) => (fetch as { readonly type?: string })?.type === 'AssignVariableOp';

/** The number of runs in execution, by the task that makes them and its incarnation. */
class Executing {
  readonly #runs = new Map<string, Map<number, number>>();

  add({ task, incarnation }: Identity, change: 1 | -1): void {
    const runs = this.#runs.get(task) ?? new Map<number, number>();
    this.#runs.set(task, runs.set(incarnation, (runs.get(incarnation) ?? 0) + change));
  }

  /** Those of other processes of the task. */
  ofOthers({ task, incarnation }: Identity): number {
    const runs = [...(this.#runs.get(task) ?? [])];
    return runs.reduce((sum, [by, count]) => sum + (by === incarnation ? 0 : count), 0);
  }
}

export function observeRuns(report: (event: TaskEvent) => void): void {
  const { run } = ClusterSession.prototype;
  ClusterSession.prototype.run = function (fetches, options) {
    if (Array.isArray(fetches) && fetches.length > 0 && fetches.every(isInitializer))
      stopAt('lab.initialize');
    stopAt('lab.run');
    return run.call(this, fetches, options) as never;
  };

  // A message is processed while its bytes are received.
  let caller: Identity | undefined;
  const { onStream } = ClusterTask.prototype;
  ClusterTask.prototype.onStream = function (protocol, handler) {
    return onStream.call(this, protocol, (socket, context) => {
      const { on } = socket;
      // The handler reads later, when the work of an earlier process is over: to listen here would lose bytes.
      socket.on = ((event: string, listener: (...args: unknown[]) => void) =>
        on.call(
          socket,
          event,
          event === 'data' ? withCaller(context.from, listener) : listener,
        )) as typeof on;
      return handler(socket, context);
    });
  };
  const withCaller = (from: Identity, listener: (...args: unknown[]) => void) => {
    return (...args: unknown[]) => {
      caller = from;
      try {
        listener(...args);
      } finally {
        caller = undefined;
      }
    };
  };

  const executing = new Executing();
  const last = new Map<string, number>();
  const { start } = HostedStage.prototype;
  HostedStage.prototype.start = function (values, timeoutMs, onDone, ...origin) {
    const from = caller;
    if (from === undefined) return start.call(this, values, timeoutMs, onDone, ...origin);
    stopAt('lab.stage');
    const { task, incarnation } = from;
    if (last.get(task) !== incarnation)
      report({ type: 'ran', of: task, by: incarnation, unfinished: executing.ofOthers(from) });
    last.set(task, incarnation);
    executing.add(from, 1);
    const done: typeof onDone = (error, outputs) => {
      executing.add(from, -1);
      onDone(error, outputs);
    };
    return start.call(this, values, timeoutMs, done, ...origin);
  };
}
