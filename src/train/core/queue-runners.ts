/** Starts the queue runners of a graph: they fill its queues in the background until the input ends or all stop. */
import { currentGraph } from '../../graph/graph.js';
import { GraphKeys } from '../../variables/collections.js';
import type { Coordinator } from '../recovery/coordinator.js';
import type { TrainingRunner } from '../recovery/training-runner.js';

/** What this needs of a queue runner: it starts its loops and gives their ends. */
export interface QueueRunnerLike {
  readonly name?: string;
  createThreads(session: TrainingRunner, coordinator: Coordinator): readonly Promise<unknown>[];
}

export interface StartQueueRunnersOptions {
  readonly coordinator: Coordinator;
  /** Which runners; those of the graph's collection when left out. */
  readonly queueRunners?: readonly QueueRunnerLike[];
  readonly collection?: string;
}

/** Gives the loops that were started; the coordinator joins them too. */
export function startQueueRunners(
  session: TrainingRunner,
  { coordinator, queueRunners, collection = GraphKeys.queueRunners }: StartQueueRunnersOptions,
): readonly Promise<unknown>[] {
  const runners =
    queueRunners ?? (session.graph ?? currentGraph()).getCollection<QueueRunnerLike>(collection);
  return runners.flatMap((runner) => {
    const loops = runner.createThreads(session, coordinator);
    for (const loop of loops) coordinator.register(loop, runner.name ?? 'queue runner');
    return loops;
  });
}
