/** The tasks of a cluster in one process, without connections: for tests of plans. */
import type { Graph } from '../../graph/graph.js';
import { DirectSession } from '../direct-session.js';
import { StageHost } from '../host/stage-host.js';
import type { Placement } from '../partition/placement.js';
import type { Stage } from '../partition/plan.js';
import type { StageRunner } from '../run-plan.js';

export const SELF = '/job:worker/task:0';
export const PLACEMENT: Placement = {
  self: SELF,
  taskOf: ({ job, task }) => (job === 'worker' ? SELF : `/job:${job}/task:${task ?? 0}`),
};

export class Hosts {
  readonly #hosts = new Map<string, StageHost>();
  /** Every stage that was started, in order. */
  readonly started: Stage[] = [];

  host(task: string): StageHost {
    let host = this.#hosts.get(task);
    if (!host) {
      host = new StageHost({ task });
      this.#hosts.set(task, host);
    }
    return host;
  }

  session(graph: Graph): DirectSession {
    const runnerOf = (task: string): StageRunner => ({
      start: (stage, inputs, timeoutMs, done) => {
        this.started.push(stage);
        return this.host(task).register(stage.hash, stage.spec).start(inputs, timeoutMs, done);
      },
    });
    return new DirectSession({ graph, placement: PLACEMENT, runnerOf });
  }

  async close(): Promise<void> {
    for (const host of this.#hosts.values()) await host.close();
  }
}
