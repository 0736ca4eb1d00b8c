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
 * A run that needs the batch waits for a lease, and reports what it consumed; other runs do neither. The chief's ledger
 * is part of every checkpoint of the session and is restored with it. When every record of every epoch is consumed,
 * `run` fails with OUT_OF_RANGE, as at the end of any input. Runs that need the batch execute one at a time.
 */

import { invalid } from '../../../base/errors/errors.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import { constant } from '../../../tensorflow/ops/creation.js';
import type { UpdateGuard } from '../../../tensorflow/optimizers/optimizer.js';
import { Tensor } from '../../../tensorflow/tensor/tensor.js';
import { Dataset } from '../../input/dataset/dataset.js';
import { leasable } from '../../input/leases/leased-dataset.js';
import type { LeasableInput, ShardedFiles } from '../../input/leases/sharded-files.js';
import { StepMarks } from '../../input/leases/step-marks.js';
import type { Server } from '../task/server.js';
import { LeasedInputHook } from './leased-input.js';

export interface ShardsHookOptions {
  /** This task's server; default: none, everything runs in this process. */
  readonly server?: Server;
}

export class ShardsHook<T = unknown> extends LeasedInputHook {
  /** The input of the model. */
  readonly batch: T;
  /** For `minimize`: applies updates only while their lease is valid. Undefined without a ps. */
  readonly guard: UpdateGuard | undefined;

  /** Builds the input in the current graph. */
  constructor(files: ShardedFiles<T> | Dataset<T>, { server }: ShardsHookOptions = {}) {
    const source = toLeasable(files);
    const { input, value, position } = source.build();
    const slot = constant(Tensor.of(0n)) as Output<'int64'>;
    const marks =
      server && server.psTasks.length > 0 ? new StepMarks(server.task.task, position, slot) : undefined;
    super({ files: source, hint: undefined, input, position, slot, marks });
    this.batch = value;
    this.guard = marks;
  }

  override begin(): void {
    const { marks } = this.shards;
    if (!marks || marks.devices.length > 0) return;
    throw invalid('No update on a ps uses the guard of the ShardsHook: a record could be applied twice', {
      hint: 'Pass it to the optimizer: minimize(loss, { globalStep, guard: shards.guard }).',
    });
  }
}

function toLeasable<T>(files: ShardedFiles<T> | Dataset<T>): LeasableInput<T> {
  if (!(files instanceof Dataset)) return files;
  const found = leasable(files);
  if (found !== undefined && typeof found !== 'string') return found;
  throw invalid(`The dataset cannot be leased: ${found ?? 'it does not read record files'}`, {
    hint: 'Use tf.data.shards, or remove the hook so that every worker reads all records.',
  });
}
