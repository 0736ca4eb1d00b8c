/**
 * Ends a graph's input before the session of a server is closed. The threads of its datasets run functions of the
 * session: if they outlive it, they crash the process.
 */
import { ShoalError } from '../../../base/errors/errors.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import * as raw from '../../../tensorflow/ops/generated/index.js';
import type { Runner } from '../../../tensorflow/session/runner.js';
import { INPUT_FEEDERS } from './generator.js';
import { ITERATORS } from './iterator.js';

interface Releasable {
  release?(session: Runner): Promise<void>;
}

const AT_MOST_MS = 5000;

/** The input of a complete graph, over consecutive sessions. */
export class InputRelease {
  /** Ends the input before its session is closed; undefined if the graph has no input. */
  readonly beforeClose: ((session: Runner) => Promise<void>) | undefined;
  #times = 0;

  constructor(graph: Graph) {
    const release = releaseOf(graph);
    this.beforeClose =
      release &&
      ((session) => {
        this.#times += 1;
        return release(session);
      });
  }

  /** How often the input was released: its readers must restart after each. */
  readonly times = (): number => this.#times;
}

function releaseOf(graph: Graph): InputRelease['beforeClose'] {
  const iterators = graph.getCollection<Output<'resource'>>(ITERATORS);
  const feeders = graph.getCollection<Releasable>(INPUT_FEEDERS);
  if (iterators.length === 0) return undefined;
  const destroy: Operation[] = graph.asDefault(() =>
    iterators.map((handle) =>
      graph.colocateWith(handle, () => raw.destroyResourceOp(handle, { ignoreLookupError: true })),
    ),
  );
  return async (session) => {
    const signal = AbortSignal.timeout(AT_MOST_MS);
    for (const feeder of feeders) await feeder.release?.(session);
    await session.run(destroy, { signal }).catch((error: unknown) => {
      // A dead session has no running threads.
      if (!(error instanceof ShoalError)) throw error;
    });
  };
}
