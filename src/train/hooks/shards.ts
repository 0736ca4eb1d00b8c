/**
 * Leased files as the input of a monitored session:
 *
 *   const shards = new ShardsHook(tf.data.shards({ files, batchSize: 100, parse }), { server });
 *   const loss = model(shards.batch);
 *   const trainOp = tf.train.adagrad(0.1).minimize(loss, { globalStep, guard: shards.guard });
 *   await MonitoredTrainingSession({ server, checkpointDir, hooks: [shards] }, async (session) => {
 *     while (!session.shouldStop()) await session.run(trainOp);
 *   });
 *
 * A run that needs the batch waits for a lease, and reports what it consumed; other runs do neither. The chief's ledger is
 * in every checkpoint of the session and goes back with it. When every record of every epoch is consumed, `run` fails with
 * OUT_OF_RANGE as at the end of any input. One such run is made at a time.
 */
import type { Server } from '../../cluster/runtime/server.js';
import { invalid, ShoalError } from '../../errors/errors.js';
import { isOutputLike, Operation, type Output } from '../../graph/operation.js';
import { Dataset } from '../../input/dataset/dataset.js';
import { leasable } from '../../input/leases/leased-dataset.js';
import type { LeasableInput, ShardedFiles } from '../../input/leases/sharded-files.js';
import { StepMarks } from '../../input/leases/step-marks.js';
import { constant } from '../../ops/creation.js';
import type { UpdateGuard } from '../../optimizers/optimizer.js';
import type { Fetches } from '../../session/fetches.js';
import { Tensor } from '../../tensor/tensor.js';
import type { AdmittedRun, LeasedInput } from '../leases/leased-input.js';
import { nextOf, type ShardParts } from '../leases/shard-parts.js';
import { SessionRunHook } from './session-run-hook.js';

export interface ShardsHookOptions {
  /** This task's server; none: all in this process. */
  readonly server?: Server | undefined;
}

export class ShardsHook<T = unknown> extends SessionRunHook {
  /** What the model is made of. */
  readonly batch: T;
  /** For `minimize`: lets updates by only while their lease counts. Undefined where there is no ps. */
  readonly guard: UpdateGuard | undefined;
  readonly parts: ShardParts;
  readonly #next: Operation;
  readonly #needs = new WeakMap<Operation, boolean>();
  #turn: Promise<void> = Promise.resolve();

  /** Builds the input in the current graph. */
  constructor(files: ShardedFiles<T> | Dataset<T>, { server }: ShardsHookOptions = {}) {
    super();
    const source = toLeasable(files);
    const { input, value, position } = source.build();
    const lane = constant(Tensor.of(0n)) as Output<'int64'>;
    const marks =
      server && server.psTasks.length > 0 ? new StepMarks(server.task.task, position, lane) : undefined;
    this.batch = value;
    this.guard = marks;
    this.parts = { files: source, hint: undefined, input, position, lane, marks };
    this.#next = nextOf(position.op);
  }

  override begin(): void {
    const { marks } = this.parts;
    if (!marks || marks.devices.length > 0) return;
    throw invalid('No update of a ps has the guard of the ShardsHook: a record could be applied twice', {
      hint: 'Give it to the optimizer: minimize(loss, { globalStep, guard: shards.guard }).',
    });
  }

  /** A batch for a run that needs one; undefined for any other. Fails when the input is at its end. */
  async admit(leased: LeasedInput, fetches: Fetches, signal: AbortSignal): Promise<AdmittedRun | undefined> {
    if (!this.#isNeededBy(fetches)) return undefined;
    const before = this.#turn;
    let over = () => {};
    this.#turn = new Promise((resolve) => {
      over = resolve;
    });
    try {
      await before;
      const step = await leased.admit(signal);
      if (!step) throw new ShoalError('SHOAL_TF_OUT_OF_RANGE', 'Every record of the input is consumed');
      return { position: this.parts.position, make: (run) => step.make(run).finally(over) };
    } catch (error) {
      over();
      throw error;
    }
  }

  #isNeededBy(fetches: Fetches): boolean {
    if (fetches === null || fetches === undefined || typeof fetches !== 'object') return false;
    if (fetches instanceof Operation) return this.#isNeeded(fetches);
    if (isOutputLike(fetches)) return this.#isNeeded(fetches.toOutput().op);
    return Object.values(fetches).some((child) => this.#isNeededBy(child as Fetches));
  }

  /** Whether an op runs the one that takes the next batch. */
  #isNeeded(op: Operation): boolean {
    const known = this.#needs.get(op);
    if (known !== undefined) return known;
    const seen = new Set<Operation>([op]);
    const open = [op];
    for (let next = open.pop(); next; next = open.pop()) {
      for (const input of [...next.inputs.map((output) => output.op), ...next.controlInputs]) {
        if (seen.has(input)) continue;
        seen.add(input);
        open.push(input);
      }
    }
    const needs = [...seen].some(({ name }) => name === this.#next.name);
    this.#needs.set(op, needs);
    return needs;
  }
}

function toLeasable<T>(files: ShardedFiles<T> | Dataset<T>): LeasableInput<T> {
  if (!(files instanceof Dataset)) return files;
  const found = leasable(files);
  if (found !== undefined && typeof found !== 'string') return found;
  throw invalid(`The dataset can't be leased: ${found ?? 'it is not made of files of records'}`, {
    hint: 'Use tf.data.shards, or leave the hook out for every worker to read all.',
  });
}
