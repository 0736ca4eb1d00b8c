/**
 * Runs fetches over several tasks: divides each distinct run once, and starts its stages in the session of this task
 * and on the other tasks. No call of TensorFlow waits for another task.
 */
import { setMaxListeners } from 'node:events';
import { ShoalError } from '../../base/errors/errors.js';
import type { Graph } from '../../tensorflow/graph/graph.js';
import type { Operation, Output } from '../../tensorflow/graph/operation.js';
import { planFeeds } from '../../tensorflow/session/feeds.js';
import { type Fetches, type FetchResult, planFetches } from '../../tensorflow/session/fetches.js';
import { checkTimeout } from '../../tensorflow/session/native-call.js';
import type { Runner, RunOptions } from '../../tensorflow/session/runner.js';
import { partition } from './partition/partition.js';
import type { RunPlacement } from './partition/placement.js';
import { prepareRun, type RunnablePlan, runPlan, type StageRunner } from './run-plan.js';
import type { TaskTrace } from './trace/task-trace.js';

export interface DirectSessionOptions {
  readonly graph: Graph;
  readonly placement: RunPlacement;
  readonly runnerOf: (task: string) => StageRunner;
  /** Called for each run that has failed while stages of it are running. Default: none. */
  readonly onFailed?: (ended: Promise<void>) => void;
  /** Default: runs are not traced. */
  readonly trace?: TaskTrace;
}

export class DirectSession implements Runner {
  readonly graph: Graph;
  /** Not empty: the objects of the session outlive it, as on a server. */
  readonly target = 'direct';
  readonly #options: DirectSessionOptions;
  readonly #plans = new Map<string, RunnablePlan>();
  readonly #ids = new WeakMap<Operation, number>();
  readonly #closing = new AbortController();
  #nextId = 0;

  constructor(options: DirectSessionOptions) {
    this.graph = options.graph;
    this.#options = options;
    // Every run in flight has a listener.
    setMaxListeners(0, this.#closing.signal);
  }

  run<const F extends Fetches>(fetches: F, options: RunOptions = {}): Promise<FetchResult<F>> {
    try {
      return this.#run(fetches, options) as Promise<FetchResult<F>>;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #run(fetches: Fetches, options: RunOptions): Promise<unknown> {
    if (this.#closing.signal.aborted) throw new ShoalError('SHOAL_DISPOSED', 'This session was closed');
    const feeds = planFeeds(this.graph, options.feeds);
    const fed = feeds.map(({ output }) => output);
    const wanted = planFetches(this.graph, fetches, fed);
    const targets = options.targets ? [...new Set([...wanted.targets, ...options.targets])] : wanted.targets;
    const runnable = this.#planFor(wanted.outputs, targets, fed);
    const tensors = feeds.map(({ tensor }) => tensor);
    const { timeoutMs, signal, onBegun, onMetadata } = options;
    checkTimeout(timeoutMs);
    if (onMetadata) {
      throw new ShoalError('SHOAL_UNSUPPORTED', 'The direct engine does not trace runs', {
        hint: "Profile with engine: 'grpc', or in one process.",
      });
    }
    let onEnded: (() => void) | undefined;
    if (onBegun)
      onBegun(
        new Promise((resolve) => {
          onEnded = resolve;
        }),
      );
    const what = () => describeRun(wanted.outputs, targets);
    const { runnerOf, onFailed, trace } = this.#options;
    return runPlan(runnable, tensors, runnerOf, {
      what,
      timeoutMs,
      signals: signal ? [signal, this.#closing.signal] : [this.#closing.signal],
      onEnded,
      onFailed,
      trace,
    }).then((values) => wanted.assemble(values, tensors));
  }

  /** The plan of a run, made once. @internal */
  #planFor(
    outputs: readonly Output[],
    targets: readonly Operation[],
    feeds: readonly Output[],
  ): RunnablePlan {
    const key = `${this.#keyOf(outputs)};${targets.map((op) => this.#idOf(op)).join()};${this.#keyOf(feeds)}`;
    let known = this.#plans.get(key);
    if (!known) {
      const { graph, placement } = this.#options;
      known = prepareRun(partition(graph, { fetches: outputs, targets, feeds }, placement));
      this.#plans.set(key, known);
    }
    return known;
  }

  #keyOf(outputs: readonly Output[]): string {
    let key = '';
    for (const { op, index } of outputs) key += `${this.#idOf(op)}:${index},`;
    return key;
  }

  #idOf(op: Operation): number {
    let id = this.#ids.get(op);
    if (id === undefined) {
      id = this.#nextId++;
      this.#ids.set(op, id);
    }
    return id;
  }

  /** Cancels active runs. Variables and queues stay in the sessions of their tasks. */
  async close(): Promise<void> {
    this.#closing.abort('the session was closed');
  }
}

function describeRun(outputs: readonly Output[], targets: readonly Operation[]): string {
  const names = [...outputs.map(({ name }) => name), ...targets.map(({ name }) => name)];
  return `A run of ${names.slice(0, 3).join(', ')}${names.length > 3 ? ', …' : ''}`;
}
