/**
 * The session of a task in the direct engine. It holds the task's variables, queues and datasets, and runs the stages
 * that this task and others have registered. A stage is imported once, under a prefix of its own; its handles find
 * their objects by name.
 *
 * Stages stay until the process ends, used or not: TensorFlow can neither remove ops from a graph nor drop what a session
 * has prepared for a run, and another session would not have the variables. So nothing would be gained by forgetting a
 * stage, and the next worker with the same program would import it again. Their number is limited instead. Workers with
 * the same program share them, whether they come together or one after the other.
 */
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { isShoalError, ShoalError } from '../../../base/errors/errors.js';
import {
  ConfigProto_ExperimentalSchema,
  ConfigProtoSchema,
} from '../../../base/proto/generated/config_pb.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import { importGraphDef } from '../../../tensorflow/graph/import-graph-def.js';
import { Session } from '../../../tensorflow/session/session.js';
import type { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { hashOf, type StageSpec } from '../partition/plan.js';
import type { StageRunner } from '../run-plan.js';
import { stageName, TaskTrace } from '../trace/task-trace.js';
import { HostedStage } from './hosted-stage.js';
import { WaitingStages } from './waiting.js';

export interface StageHostOptions {
  /** The task, for messages. */
  readonly task: string;
  /** The configuration of the session; default: TensorFlow's, without threads that spin. */
  readonly config?: MessageInitShape<typeof ConfigProtoSchema>;
  /** How many stages may be registered: each keeps memory until the process ends; default: 20,000. */
  readonly maxStages?: number;
  /** Default: one of its own. */
  readonly trace?: TaskTrace;
}

const MAX_STAGES = 20_000;

export class StageHost {
  readonly task: string;
  readonly graph = new Graph();
  readonly session: Session;
  readonly trace: TaskTrace;
  readonly #maxStages: number;
  readonly #stages = new Map<string, HostedStage>();
  readonly #waiting = new WaitingStages();

  constructor({ task, config, maxStages = MAX_STAGES, trace = new TaskTrace() }: StageHostOptions) {
    this.task = task;
    this.trace = trace;
    this.#maxStages = maxStages;
    const complete = create(ConfigProtoSchema, config);
    complete.experimental ??= create(ConfigProto_ExperimentalSchema);
    // Steps mostly wait for other tasks. Threads that spin while waiting would take CPU time from them.
    complete.experimental.disableThreadSpinning = true;
    this.session = Session.open({ graph: this.graph, config: complete });
  }

  /** Makes TensorFlow create its threads and kernels, which otherwise delays the first run. */
  async warmUp(): Promise<void> {
    const op = this.graph.op('NoOp', [], {}, { name: 'warm_up' });
    await this.session.run(op);
  }

  get stages(): number {
    return this.#stages.size;
  }

  /** Registers a stage, or finds the identical one. Throws if its graph is invalid or does not have this hash. */
  register(hash: string, spec: StageSpec): HostedStage {
    const known = this.#stages.get(hash);
    if (known) return known;
    if (this.#stages.size >= this.#maxStages) {
      throw new ShoalError(
        'SHOAL_TF_RESOURCE_EXHAUSTED',
        `${this.task} has ${this.#maxStages} registered stages and accepts no more`,
        { hint: 'Create all fetches before training: a run with new ops registers new stages.' },
      );
    }
    // Others get the stage by this hash.
    if (hashOf(spec) !== hash)
      throw new ShoalError('SHOAL_CORRUPT', `a stage for ${this.task} does not have the hash ${hash}`);
    const stage = this.#import(spec);
    this.#stages.set(hash, stage);
    return stage;
  }

  #import(spec: StageSpec): HostedStage {
    const prefix = `stage.${this.#stages.size}`;
    try {
      // The prefix is unique, so the graph need not learn the names, which takes time in a large graph.
      const { outputs, operations } = importGraphDef(this.graph, spec.graph, {
        prefix,
        returnOutputs: [...spec.inputs, ...spec.outputs],
        returnOperations: spec.targets,
      });
      const inputs = outputs.slice(0, spec.inputs.length);
      const results = outputs.slice(spec.inputs.length);
      return new HostedStage(this.session, {
        inputs,
        outputs: results,
        targets: operations,
        waits: spec.waits,
        waiting: this.#waiting,
        rename: (message) =>
          message.replaceAll(`${prefix}/`, '').replaceAll('/job:localhost/replica:0/task:0', this.task),
        task: this.task,
        name: stageName(spec),
        trace: this.trace,
      });
    } catch (error) {
      if (!isShoalError(error)) throw error;
      throw new ShoalError('SHOAL_INVALID_ARGUMENT', `${this.task} cannot import a stage: ${error.message}`, {
        cause: error,
        task: this.task,
      });
    }
  }

  /** Runs stages for this process itself, which has all their tensors. */
  readonly runner: StageRunner = {
    start: (stage, inputs, timeoutMs, done, run) =>
      this.register(stage.hash, stage.spec).start(
        inputs as readonly Tensor[],
        timeoutMs,
        done,
        this.task,
        run,
      ),
  };

  async close(): Promise<void> {
    await this.session.close({ timeoutMs: 5000 });
    this.graph.dispose();
  }
}
