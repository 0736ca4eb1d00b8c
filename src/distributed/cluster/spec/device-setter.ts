/** Device placement for a replica: variables on the ps, everything else on the worker. */

import { invalid } from '../../../base/errors/errors.js';
import type { OrNull } from '../../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../../base/errors/option-names.js';
import type { DeviceFunction, OpRequest } from '../../../tensorflow/graph/device.js';
import { parseDevice } from '../../../tensorflow/graph/device.js';
import { DTYPES, type DType } from '../../../tensorflow/tensor/dtype.js';
import { type PartialShape, sizeOf } from '../../../tensorflow/tensor/shape.js';

/** Chooses the ps for a variable op; called once for each variable. */
export type PsStrategy = (op: OpRequest, psTasks: number) => number;

/** The ps in turn, in the order of variable creation. */
export function roundRobinStrategy(): PsStrategy {
  let next = 0;
  return (_op, psTasks) => next++ % psTasks;
}

/** The ps with the fewest bytes so far. */
export function greedyStrategy(bytesOf: (op: OpRequest) => number = byteSize): PsStrategy {
  const loads: number[] = [];
  return (op, psTasks) => {
    while (loads.length < psTasks) loads.push(0);
    const least = loads.indexOf(Math.min(...loads.slice(0, psTasks)));
    loads[least] = (loads[least] as number) + bytesOf(op);
    return least;
  };
}

/** The bytes of a variable by its shape and type; 0 if the shape is unknown. */
export function byteSize({ attrs }: OpRequest): number {
  const shape = attrs.shape as PartialShape | undefined;
  if (!shape || shape.some((dim) => dim === null)) return 0;
  return sizeOf(shape as number[]) * (DTYPES[attrs.dtype as DType]?.size ?? 0);
}

export interface ReplicaDeviceSetterOptions {
  /** The number of ps; 0 places variables on the worker. Default: from `cluster`. */
  readonly psTasks?: number;
  /** The cluster that determines the number of ps; default: none, `psTasks` or 0. */
  readonly cluster?: { numTasks(job: string): number };
  /** The device of the ps, without the task; default: `/job:ps`. */
  readonly psDevice?: string;
  /** The device of all other ops; default: `/job:worker`. */
  readonly workerDevice?: string;
  /** The op types that are placed on a ps; default: variables, lookup tables and accumulators. */
  readonly psOps?: readonly string[];
  /** Chooses the ps of an op; default: `roundRobinStrategy()`. */
  readonly psStrategy?: PsStrategy;
}

/** Stateful ops, which are placed on a ps. */
const PS_OPS = [
  'VarHandleOp',
  'HashTableV2',
  'MutableHashTableV2',
  'MutableHashTableOfTensorsV2',
  'MutableDenseHashTableV2',
  'ConditionalAccumulator',
  'SparseConditionalAccumulator',
  'ResourceConditionalAccumulator',
  'BoostedTreesEnsembleResourceHandleOp',
  'BoostedTreesQuantileStreamResourceHandleOp',
];

/** All of them: a misspelt one is an error. */
const OPTIONS: Names<ReplicaDeviceSetterOptions> = {
  psTasks: true,
  cluster: true,
  psDevice: true,
  workerDevice: true,
  psOps: true,
  psStrategy: true,
};

/** A device function for `tf.device`: TensorFlow 1's between-graph replication. */
export function replicaDeviceSetter(given: OrNull<ReplicaDeviceSetterOptions> = {}): DeviceFunction | null {
  const options = knownOptions(given, OPTIONS, 'replicaDeviceSetter');
  const psTasks = options.psTasks ?? options.cluster?.numTasks('ps') ?? 0;
  if (!Number.isSafeInteger(psTasks) || psTasks < 0)
    throw invalid(`psTasks must be a non-negative integer, not ${psTasks}`);
  if (psTasks === 0) return null;
  const { psDevice = '/job:ps', workerDevice = '/job:worker' } = options;
  const psOps = new Set(options.psOps ?? PS_OPS);
  const strategy = options.psStrategy ?? roundRobinStrategy();
  return (op) => {
    if (!psOps.has(op.type)) return workerDevice;
    // An inner scope that sets a job or a task takes precedence.
    const asked = parseDevice(op.device);
    if (asked.job !== undefined || asked.task !== undefined) return psDevice;
    const task = strategy(op, psTasks);
    if (!Number.isSafeInteger(task) || task < 0 || task >= psTasks) {
      throw invalid(`The ps strategy chose task ${task} for '${op.name}'; there are ${psTasks} ps`);
    }
    return `${psDevice}/task:${task}`;
  };
}
