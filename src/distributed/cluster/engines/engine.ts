/**
 * What executes the runs of a task. `direct`: every task runs its part of a step in a session of its own process, and
 * tensors pass between the agents. `grpc`: TensorFlow's servers divide and execute the step.
 */
import type { WaitOptions } from '../../../base/async/deadline.js';
import type { ConfigProto } from '../../../base/proto/generated/config_pb.js';
import type { Graph } from '../../../tensorflow/graph/graph.js';
import type { Runner } from '../../../tensorflow/session/runner.js';
import type { TargetSession } from '../../../tensorflow/session/targets.js';
import type { TaskTrace } from '../../engine/trace/task-trace.js';
import type { Member } from '../membership/types.js';
import type { EngineKind } from '../spec/config.js';

export interface EngineSessionOptions extends WaitOptions {
  readonly config?: ConfigProto | undefined;
}

/** A session over this task and the ps. */
export type EngineSession = TargetSession;

/** A session of this process only, on the objects that this task holds. */
export interface LocalSession {
  readonly graph: Graph;
  readonly session: Runner;
  close(): Promise<void>;
}

export interface Engine {
  readonly kind: EngineKind;
  /** How programs of this process refer to the task: `new Session(server.target)`. */
  readonly target: string;
  /** Whether the queues and iterators of this task outlive a session. */
  readonly keepsObjects: boolean;
  /** What this task does, if the engine can be traced. */
  readonly trace?: TaskTrace | undefined;
  /** A line for the log about where the engine listens. */
  readonly description: string;
  /** Rejects if the member cannot take part in runs now. */
  probe(member: Member): Promise<void>;
  openSession(graph: Graph, ps: readonly Member[], options: EngineSessionOptions): Promise<EngineSession>;
  openLocal(): LocalSession;
  /** Before a run: rejects if this process may have been replaced. Undefined if there is no doubt. */
  confirmCurrent(): Promise<void> | undefined;
  /**
   * Resolves when no part of a failed run is still running: it could consume input, or a token, that belongs to later
   * runs. Rejects after `timeoutMs`.
   */
  settled(options: { readonly timeoutMs: number }): Promise<void>;
  /** The configuration of a TensorFlow session over the ps; throws if the engine has none. */
  sessionConfig(base?: ConfigProto): ConfigProto;
  close(): Promise<void>;
}
