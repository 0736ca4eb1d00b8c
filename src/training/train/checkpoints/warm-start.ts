/**
 * Gives variables that `initFromCheckpoint` selected the values of a checkpoint or a SavedModel. Only the chief reads the files, when it initializes variables
 * because the job has no checkpoint of its own. On a cluster every ps gets its part through the store, so no other task
 * needs access to the chief's disk.
 */

import { basename, dirname } from 'node:path';
import { invalid } from '../../../base/errors/errors.js';
import type { Log } from '../../../base/text/log.js';
import { newAttempt } from '../../../distributed/checkpoint/format/names.js';
import {
  fullShapeOf,
  savedVariable,
  sliceOf,
} from '../../../distributed/checkpoint/format/saved-variable.js';
import { readTensor } from '../../../distributed/checkpoint/reading/read-tensor.js';
import { SessionVariables } from '../../../distributed/checkpoint/shard/variable-access.js';
import { DirectoryReader } from '../../../tensorflow/formats/range-reader.js';
import { BundleReader } from '../../../tensorflow/formats/tensor-bundle/bundle-reader.js';
import { dtypeFromNumber } from '../../../tensorflow/tensor/dtype.js';
import { formatShape } from '../../../tensorflow/tensor/shape.js';
import { GraphKeys } from '../../../tensorflow/variables/collections.js';
import type { Variable } from '../../../tensorflow/variables/variable.js';
import { nameInCheckpoint, type WarmStart } from '../../../tensorflow/variables/warm-start.js';
import type { TrainingRunner } from '../task/training-runner.js';
import { findCheckpoint } from './latest-checkpoint.js';
import { Saver } from './saver.js';

/** Assigns the checkpoint values to the registered variables; resolves with these variables. */
export async function applyWarmStarts(
  runner: TrainingRunner,
  options: {
    readonly signal?: AbortSignal;
    readonly log?: Log;
  } = {},
): Promise<ReadonlySet<Variable>> {
  const done = new Set<Variable>();
  for (const { path, variables } of runner.graph.getCollection<WarmStart>(GraphKeys.warmStarts)) {
    const prefix = await findCheckpoint(path);
    options.log?.(`initializing ${variables.size} variables from ${prefix}`);
    await using files = new DirectoryReader(dirname(prefix));
    const bundle = await BundleReader.open(files, basename(prefix));
    for (const [name, own] of variables)
      for (const variable of own) checkFits(bundle, prefix, name, variable);
    if (runner.server) {
      // A unique namespace: no stored blob is mistaken for these files.
      const namespace = `warm-start-${newAttempt()}`;
      const saver = new Saver({ varList: Object.fromEntries(variables), namespace, log: options.log });
      await saver.restore(runner, prefix, { signal: options.signal });
    } else await assignAll(runner, bundle, variables, options.signal);
    for (const own of variables.values()) for (const variable of own) done.add(variable);
  }
  return done;
}

function checkFits(bundle: BundleReader, prefix: string, name: string, variable: Variable): void {
  const tensor = bundle.tensor(name);
  const saved = savedVariable(variable, name);
  const [shape, dtype] = [fullShapeOf(saved), dtypeFromNumber(tensor.dtype)];
  const isSame = shape.length === tensor.shape.length && shape.every((size, i) => size === tensor.shape[i]);
  if (isSame && dtype === variable.dtype) return;
  throw invalid(
    `initFromCheckpoint: the variable '${nameInCheckpoint(variable)}' is ${variable.dtype} ${formatShape(shape)}, ` +
      `but '${name}' in ${prefix} is ${dtype} ${formatShape(tensor.shape)}`,
  );
}

async function assignAll(
  runner: TrainingRunner,
  bundle: BundleReader,
  variables: WarmStart['variables'],
  signal: AbortSignal | undefined,
): Promise<void> {
  const access = new SessionVariables(runner, [...variables.values()].flat());
  for (const [name, own] of variables) {
    for (const variable of own) {
      const saved = savedVariable(variable, name);
      const tensor = await readTensor(bundle, { ...saved, slice: sliceOf(saved) }, signal);
      await access.assign(saved, tensor, { signal });
      tensor.dispose();
    }
  }
}
