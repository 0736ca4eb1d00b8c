/** The tasks of a cluster in one process: for tests of plans. */
import type { Graph } from '../../../tensorflow/graph/graph.js';
import { DirectSession } from '../direct-session.js';
import { StageHost } from '../host/stage-host.js';
import type { RunPlacement } from '../partition/placement.js';
import type { Stage } from '../partition/plan.js';
import { RemoteStages } from '../remote/remote-stages.js';
import { StageService } from '../remote/stage-service.js';
import type { StageRunner } from '../run-plan.js';
import { SocketPairs } from './socket-pair.js';

export const SELF = '/job:worker/task:0';
export const PLACEMENT: RunPlacement = {
  self: SELF,
  taskOf: ({ job, task }) => (job === 'worker' ? SELF : `/job:${job}/task:${task ?? 0}`),
};

export class Hosts {
  readonly #hosts = new Map<string, StageHost>();
  readonly #links = new Map<string, RemoteStages>();
  readonly #services: StageService[] = [];
  #sockets: SocketPairs | undefined;
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

  /** Connects the caller with these tasks, by messages of this version; default: they get tensors without messages. */
  async connect(tasks: readonly string[], version?: number): Promise<void> {
    this.#sockets ??= await SocketPairs.listen();
    for (const task of tasks) {
      const { client, server } = await this.#sockets.pair();
      const service = new StageService(server, { host: this.host(task), label: SELF, version });
      this.#services.push(service);
      this.#links.set(task, new RemoteStages(client, { task, label: task, version }));
    }
  }

  /** How many tensors the connected tasks keep. */
  get kept(): number {
    return this.#services.reduce((sum, { kept }) => sum + kept.size, 0);
  }

  /** Breaks the connections. */
  disconnect(): void {
    for (const link of this.#links.values()) link.close();
  }

  session(graph: Graph): DirectSession {
    const runnerOf = (task: string): StageRunner => {
      const runner: StageRunner = this.#links.get(task) ?? this.host(task).runner;
      return {
        start: (stage, ...rest) => {
          this.started.push(stage);
          return runner.start(stage, ...rest);
        },
        forget: (run) => runner.forget?.(run),
      };
    };
    return new DirectSession({ graph, placement: PLACEMENT, runnerOf });
  }

  async close(): Promise<void> {
    this.disconnect();
    await this.#sockets?.close();
    for (const host of this.#hosts.values()) await host.close();
  }
}
