/** The paths from the targets of a differentiation to the losses. */
import type { Operation, Output } from '../graph/operation.js';
import { type DType, isComplex, isFloating } from '../tensor/dtype.js';

export interface Paths {
  /** Ops on a path from a target to a loss, each with the op that it feeds on the way to the loss. */
  readonly ops: ReadonlyMap<Operation, Operation | undefined>;
  /** The tensors on those paths, targets included: gradients are collected for these only. */
  readonly active: ReadonlySet<Output>;
}

export const isDifferentiableType = (dtype: DType): boolean =>
  isFloating(dtype) || isComplex(dtype) || dtype === 'resource' || dtype === 'variant';

/** Linear in the number of ops that the losses depend on; not recursive, because graphs may be deep. */
export function findPaths(
  losses: readonly Output[],
  targets: readonly Output[],
  stops: ReadonlySet<Output>,
): Paths {
  const { towardsLoss, consumers } = walkBack(losses, stops);
  const isLoss = new Set(losses);
  const active = new Set<Output>();
  const ops = new Map<Operation, Operation | undefined>();
  const front: Output[] = [];
  const activate = (output: Output) => {
    if (active.has(output) || (!consumers.has(output) && !isLoss.has(output))) return;
    active.add(output);
    front.push(output);
  };
  for (const target of targets) if (isDifferentiableType(target.dtype)) activate(target);
  for (let output = front.pop(); output; output = front.pop()) {
    for (const op of consumers.get(output) ?? []) {
      if (ops.has(op)) continue;
      ops.set(op, towardsLoss.get(op));
      for (const result of op.outputs) if (!stops.has(result)) activate(result);
    }
  }
  return { ops, active };
}

/** The ops that the losses depend on, each with one op that it feeds, and the consumers of each tensor. */
function walkBack(losses: readonly Output[], stops: ReadonlySet<Output>) {
  const towardsLoss = new Map<Operation, Operation | undefined>();
  const consumers = new Map<Output, Operation[]>();
  const stack: Operation[] = [];
  const visit = (output: Output, consumer: Operation | undefined) => {
    if (stops.has(output) || towardsLoss.has(output.op)) return;
    towardsLoss.set(output.op, consumer);
    stack.push(output.op);
  };
  for (const loss of losses) visit(loss, undefined);
  for (let op = stack.pop(); op; op = stack.pop()) {
    for (const input of op.inputs) {
      if (!isDifferentiableType(input.dtype)) continue;
      const known = consumers.get(input);
      if (known === undefined) consumers.set(input, [op]);
      else if (known.at(-1) !== op) known.push(op);
      visit(input, op);
    }
  }
  return { towardsLoss, consumers };
}
