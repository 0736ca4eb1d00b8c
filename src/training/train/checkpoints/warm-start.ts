/**
 * TensorFlow 1's init_from_checkpoint: variables start with the values of a checkpoint or a SavedModel instead of those
 * of their initializers. The call selects the variables. Only the chief reads the files, when it initializes variables
 * because the job has no checkpoint of its own. On a cluster every ps gets its part through the store, so no other task
 * needs access to the chief's disk.
 */
import { basename, dirname } from 'node:path';
import { invalid } from '../../../base/errors/errors.js';
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
import { currentGraph, type Graph } from '../../../tensorflow/graph/graph.js';
import { dtypeFromNumber } from '../../../tensorflow/tensor/dtype.js';
import { formatShape } from '../../../tensorflow/tensor/shape.js';
import { GraphKeys } from '../../../tensorflow/variables/collections.js';
import { PartitionedVariable } from '../../../tensorflow/variables/partitioned.js';
import { Variable } from '../../../tensorflow/variables/variable.js';
import { globalVariables } from '../../../tensorflow/variables/variable-scope.js';
import type { TrainingRunner } from '../task/training-runner.js';
import { findCheckpoint } from './latest-checkpoint.js';
import { Saver } from './saver.js';

/**
 * From names in the checkpoint to variables, or their names. A name that ends with a slash is a scope, and maps all
 * variables of the scope. `/` is the root.
 */
export type AssignmentMap = Readonly<Record<string, string | Variable | PartitionedVariable>>;

interface WarmStart {
  readonly path: string;
  /** Variables of this graph by their names in the checkpoint; several per name are partitions, or share a value. */
  readonly variables: ReadonlyMap<string, readonly Variable[]>;
}

/** @param path a checkpoint (`dir/model.ckpt-500`), a directory of checkpoints, or the directory of a SavedModel. */
export function initFromCheckpoint(
  path: string,
  assignmentMap: AssignmentMap,
  { graph = currentGraph() }: { readonly graph?: Graph } = {},
): void {
  const variables = new Map<string, Variable[]>();
  for (const [from, to] of Object.entries(assignmentMap)) {
    for (const [name, variable] of pairs(graph, from, to)) {
      const known = variables.get(name);
      if (known) known.push(variable);
      else variables.set(name, [variable]);
    }
  }
  graph.addToCollection(GraphKeys.warmStarts, { path, variables } satisfies WarmStart);
}

const nameOf = ({ sliceInfo, name }: Variable): string => sliceInfo?.fullName ?? name;

function pairs(graph: Graph, from: string, to: AssignmentMap[string]): [name: string, variable: Variable][] {
  if (to instanceof Variable) return [[from, to]];
  if (to instanceof PartitionedVariable) return to.parts.map((part) => [from, part]);
  const all = globalVariables(graph);
  if (!to.endsWith('/')) {
    const found = all.filter((variable) => nameOf(variable) === to);
    if (found.length === 0) throw invalid(`initFromCheckpoint: the graph has no variable '${to}'`);
    if (from.endsWith('/')) throw invalid(`initFromCheckpoint: '${from}' is a scope, and '${to}' a variable`);
    return found.map((variable) => [from, variable]);
  }
  if (!from.endsWith('/')) throw invalid(`initFromCheckpoint: '${from}' is a variable, and '${to}' a scope`);
  const [source, target] = [from, to].map((scope) => (scope === '/' ? '' : scope)) as [string, string];
  const found = all.filter((variable) => nameOf(variable).startsWith(target));
  if (found.length === 0)
    throw invalid(`initFromCheckpoint: the graph has no variables in the scope '${to}'`);
  return found.map((variable) => [source + nameOf(variable).slice(target.length), variable]);
}

/** Assigns the checkpoint values to the registered variables; resolves with these variables. */
export async function applyWarmStarts(
  runner: TrainingRunner,
  options: {
    readonly signal?: AbortSignal;
    readonly log?: (line: string) => void;
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
    `initFromCheckpoint: the variable '${nameOf(variable)}' is ${variable.dtype} ${formatShape(shape)}, ` +
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
