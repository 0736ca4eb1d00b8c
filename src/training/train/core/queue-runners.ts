/** Starts the queue runners of a graph, which fill its queues until the input ends or training stops. */
import { currentGraph } from '../../../tensorflow/graph/graph.js';
import { GraphKeys } from '../../../tensorflow/variables/collections.js';
import type { Coordinator } from '../recovery/coordinator.js';
import type { TrainingRunner } from '../task/training-runner.js';

/** `createThreads` starts the loops of the runner and returns their promises. */
export interface QueueRunnerLike {
  readonly name?: string;
  createThreads(session: TrainingRunner, coordinator: Coordinator): readonly Promise<unknown>[];
}

export interface StartQueueRunnersOptions {
  readonly coordinator: Coordinator;
  /** Default: those of the graph's collection. */
  readonly queueRunners?: readonly QueueRunnerLike[];
  /** The collection with the queue runners. Default: `queue_runners`. */
  readonly collection?: string;
}

/**
 * Returns the loops that were started; the coordinator joins them too. Loops that run in this session already, as those
 * of a managed session, are not started again.
 */
export function startQueueRunners(
  session: TrainingRunner,
  { coordinator, queueRunners, collection = GraphKeys.queueRunners }: StartQueueRunnersOptions,
): readonly Promise<unknown>[] {
  const runners =
    queueRunners ?? (session.graph ?? currentGraph()).getCollection<QueueRunnerLike>(collection);
  return runners.flatMap((runner) => {
    const loops = runner.createThreads(session.background ?? session, coordinator);
    for (const loop of loops) coordinator.register(loop, runner.name ?? 'queue runner');
    return loops;
  });
}
