/**
 * Shoal's own engine: this task's session runs its stages, and those of other tasks over one connection to each. The
 * connection is an upgraded request to the agent, so there is no other port and no other authentication.
 */

import { sleep } from '../../async/deadline.js';
import { DirectSession } from '../../engine/direct-session.js';
import { StageHost } from '../../engine/host/stage-host.js';
import type { Placement } from '../../engine/partition/placement.js';
import { RemoteStages } from '../../engine/remote/remote-stages.js';
import { StageService } from '../../engine/remote/stage-service.js';
import type { StageRunner } from '../../engine/run-plan.js';
import { invalid, messageOf, ShoalError } from '../../errors/errors.js';
import type { DeviceSpec } from '../../graph/device.js';
import type { Graph } from '../../graph/graph.js';
import type { ConfigProto } from '../../proto/generated/config_pb.js';
import type { Member } from '../membership/types.js';
import { parseTaskId, type TaskId, taskId } from '../spec/task-id.js';
import type { ClusterTask } from '../task/cluster-task.js';
import type { Engine, EngineSession, LocalSession, OpenSessionOptions } from './engine.js';

const PROTOCOL = 'stages';
const CONNECT_MS = 5000;

interface Link {
  /** The incarnation of the peer: a replaced task needs a new connection. */
  readonly nonce: string;
  readonly opening: Promise<RemoteStages>;
  stages: RemoteStages | undefined;
}

export class DirectEngine implements Engine {
  readonly target: string;
  readonly description = 'direct engine';
  readonly keepsObjects = true;
  readonly #task: ClusterTask;
  readonly #ps: ReadonlySet<TaskId>;
  readonly #services = new Set<StageService>();
  readonly #links = new Map<string, Link>();
  readonly #stopServing: () => void;
  #host: StageHost | undefined;
  /** Stages of this task's own runs. */
  #running = 0;

  constructor(task: ClusterTask, psTasks: readonly TaskId[]) {
    this.#task = task;
    this.#ps = new Set(psTasks);
    this.target = `shoal:/${task.task}`;
    this.#stopServing = task.onStream(PROTOCOL, (socket, { label, head }) => {
      const service: StageService = new StageService(socket, {
        host: this.#hostWith(undefined),
        label,
        head,
        onClose: () => this.#services.delete(service),
      });
      this.#services.add(service);
    });
  }

  /** The session is created by its first use; a later configuration has no effect. */
  #hostWith(config: ConfigProto | undefined): StageHost {
    this.#host ??= new StageHost({ task: this.#task.task, ...(config && { config }) });
    return this.#host;
  }

  async probe(member: Member): Promise<void> {
    await this.#connect(member);
  }

  async openSession(
    graph: Graph,
    ps: readonly Member[],
    { config, timeoutMs, signal }: OpenSessionOptions,
  ): Promise<EngineSession> {
    const host = this.#hostWith(config);
    await Promise.all(ps.map((member) => this.#connect(member, { timeoutMs, signal })));
    const local: StageRunner = {
      start: (stage, inputs, limitMs, done) => {
        const hosted = host.register(stage.hash, stage.spec);
        this.#running += 1;
        return hosted.start(inputs, limitMs, (error, outputs) => {
          this.#running -= 1;
          done(error, outputs);
        });
      },
    };
    const { task: self } = this.#task;
    const runnerOf = (task: string): StageRunner => (task === self ? local : this.#linked(task));
    return new DirectSession({ graph, placement: this.#placement(), runnerOf });
  }

  #linked(task: string): StageRunner {
    const stages = this.#links.get(task)?.stages;
    if (stages) return stages;
    throw new ShoalError('SHOAL_TF_UNAVAILABLE', `${task} is not connected`, { task });
  }

  #connect(
    member: Member,
    wait: Pick<OpenSessionOptions, 'timeoutMs' | 'signal'> = {},
  ): Promise<RemoteStages> {
    const { task, nonce } = member;
    const known = this.#links.get(task);
    if (known && known.nonce === nonce && !known.stages?.closed) return known.opening;
    known?.stages?.close();
    const opening = this.#open(task, wait);
    const link: Link = { nonce, opening, stages: undefined };
    this.#links.set(task, link);
    opening.then(
      (stages) => {
        link.stages = stages;
      },
      () => {
        // The next attempt opens another one.
        if (this.#links.get(task) === link) this.#links.delete(task);
      },
    );
    return opening;
  }

  async #open(
    task: TaskId,
    { timeoutMs = CONNECT_MS, signal }: Pick<OpenSessionOptions, 'timeoutMs' | 'signal'>,
  ): Promise<RemoteStages> {
    try {
      const { socket, head, label } = await this.#task.openStream(task, PROTOCOL, {
        timeoutMs: Math.min(timeoutMs, CONNECT_MS),
        ...(signal && { signal }),
      });
      return new RemoteStages(socket, { task, label, head });
    } catch (cause) {
      throw new ShoalError('SHOAL_TF_UNAVAILABLE', `no connection to ${task}: ${messageOf(cause)}`, {
        task,
        cause,
      });
    }
  }

  #placement(): Placement {
    const { task: self } = this.#task;
    const own = parseTaskId(self);
    const taskOf = ({ job, task }: DeviceSpec): string => {
      if (job === own.job && (task === undefined || Number(task) === own.index)) return self;
      const id = taskId(job as string, Number(task ?? 0));
      if (this.#ps.has(id)) return id;
      throw invalid(`An op is on ${id}, but a session of ${self} runs on ${self} and the ps only`);
    };
    return { self, taskOf };
  }

  openLocal(): LocalSession {
    const { graph, session } = this.#hostWith(undefined);
    return { graph, session, close: async () => {} };
  }

  async settled({ timeoutMs }: { readonly timeoutMs: number }): Promise<void> {
    const end = performance.now() + timeoutMs;
    while (this.#running > 0) {
      if (performance.now() >= end) {
        throw new ShoalError(
          'SHOAL_TIMEOUT',
          `${this.#running} stages of failed steps still run after ${timeoutMs} ms`,
          {
            task: this.#task.task,
          },
        );
      }
      await sleep(10);
    }
  }

  sessionConfig(): never {
    throw new ShoalError('SHOAL_UNSUPPORTED', 'The direct engine has no TensorFlow server', {
      hint: 'Open the session with server.session(graph), or start the server with engine grpc.',
    });
  }

  /** Ends all connections. The session ends with the process: threads of its datasets may be running. */
  async close(): Promise<void> {
    this.#stopServing();
    for (const { stages } of this.#links.values()) stages?.close();
    for (const service of this.#services) service.close();
  }
}
