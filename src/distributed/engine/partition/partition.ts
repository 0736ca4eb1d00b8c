/**
 * Divides a run over several tasks into stages (see plan.ts). A pure function of the graph: tasks that build the same
 * graph get the same stages, whatever their own names.
 */
import { invalid, ShoalError } from '../../../base/errors/errors.js';
import type { GraphDef } from '../../../base/proto/generated/graph_pb.js';
import { Graph } from '../../../tensorflow/graph/graph.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { type Keeping, keepingOf } from './keeping.js';
import { assignStages } from './levels.js';
import { NeededOps, type RunRequest } from './needed.js';
import { placeOps, type RunPlacement } from './placement.js';
import { hashOf, type Plan, type Stage, type StageSpec } from './plan.js';
import { buildStageGraph, type Incoming } from './stage-graph.js';
import { cannotDivide } from './units.js';

export function partition(graph: Graph, request: RunRequest, placement: RunPlacement): Plan {
  const { fetches, feeds } = request;
  const { self } = placement;
  const needed = new NeededOps(request);
  const taskOf = placeOps(needed, placement);
  const fetched = fetches.filter((output) => !needed.isFed(output));
  const shown = new Set(fetched.map(({ op }) => op));
  const anchored = needed.ops.filter((op) => needed.isAnchored(op) || (shown.has(op) && needed.isCopied(op)));
  const { stages, stageOf } = assignStages(anchored, needed, taskOf, self);

  const tensors = new Map<Output, number>(feeds.map((output, at) => [output, at]));
  if (tensors.size !== feeds.length) throw invalid('A tensor is fed twice');
  const exported = stages.map((): Output[] => []);
  const exportOutput = (output: Output): number => {
    const known = tensors.get(output);
    if (known !== undefined) return known;
    const number = tensors.size;
    tensors.set(output, number);
    exported[stageOf.get(output.op) as number]?.push(output);
    return number;
  };
  const serialized = serializedOutputs(anchored, needed, taskOf, self);
  for (const output of fetched) checkFetch(output, taskOf.get(output.op) as string, self);
  const fetchNumbers = fetches.map(exportOutput);

  // A stage's inputs determine the outputs of earlier ones, so the last stage is built first.
  let complete: GraphDef | undefined;
  const source = () => {
    complete ??= graph.toGraphDef();
    return complete;
  };
  const plan: Omit<Stage, keyof Keeping>[] = [];
  for (let at = stages.length - 1; at >= 0; at--) {
    const { task, ops, waits } = stages[at]!;
    const incoming = (output: Output, consumer: Operation): Incoming => {
      const isFed = needed.isFed(output);
      const from = isFed ? self : (taskOf.get(output.op) as string);
      if (output.dtype === 'resource' && (from !== task || task !== self))
        throw cannotDivide(consumer, `the handle '${output.name}' cannot be sent to ${task}`);
      exportOutput(output);
      return { output, serialized: !isFed && serialized.has(output) };
    };
    const built = buildStageGraph({
      ops,
      task,
      taskOf: (op) => taskOf.get(op),
      exported: exported[at]!.map((output) => ({ output, serialized: serialized.has(output) })),
      incoming,
      needed,
      source,
      versions: versions(),
    });
    const { bytes, inputs, outputs, targets } = built;
    const spec: StageSpec = { graph: bytes, inputs, outputs, targets, waits };
    plan[at] = {
      task,
      spec,
      hash: hashOf(spec),
      inputs: built.incoming.map(({ output }) => tensors.get(output) as number),
      outputs: exported[at]!.map((output) => tensors.get(output) as number),
      after: stagesBefore(ops, at, needed, stageOf),
      ops: ops.map(({ name }) => name),
    };
  }
  const keeping = keepingOf(plan, fetchNumbers, self);
  return {
    stages: plan.map((stage, at) => ({ ...stage, ...(keeping[at] as Keeping) })),
    tensors: tensors.size,
    feeds: feeds.length,
    fetches: fetchNumbers,
  };
}

function stagesBefore(
  ops: readonly Operation[],
  self: number,
  needed: NeededOps,
  stageOf: ReadonlyMap<Operation, number>,
): number[] {
  const found = new Set<number>();
  for (const op of ops) {
    for (const input of needed.inputsOf(op))
      if (!needed.isCopied(input.op)) found.add(stageOf.get(input.op) as number);
    for (const control of needed.waitsFor(op)) found.add(stageOf.get(control) as number);
  }
  found.delete(self);
  return [...found].sort((a, b) => a - b);
}

/** Variants that pass between tasks, or between stages of another task, are sent in TensorFlow's encoding. */
function serializedOutputs(
  ops: readonly Operation[],
  needed: NeededOps,
  taskOf: ReadonlyMap<Operation, string>,
  self: string,
): ReadonlySet<Output> {
  const found = new Set<Output>();
  for (const op of ops)
    for (const input of needed.inputsOf(op))
      if (input.dtype === 'variant' && (taskOf.get(op) !== self || taskOf.get(input.op) !== self))
        found.add(input);
  return found;
}

function checkFetch({ op, dtype, name }: Output, task: string, self: string): void {
  if ((dtype !== 'resource' && dtype !== 'variant') || task === self) return;
  throw new ShoalError('SHOAL_UNSUPPORTED', `'${name}' is a ${dtype} on ${task}: it cannot be fetched`, {
    op: op.name,
  });
}

let known: GraphDef['versions'];

/** The versions of graphs that this library makes; without them it applies the rules of its oldest version. */
function versions(): GraphDef['versions'] {
  if (known) return known;
  using graph = new Graph();
  known = graph.toGraphDef().versions;
  return known;
}
