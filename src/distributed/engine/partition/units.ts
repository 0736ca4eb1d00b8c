/** Units: the ops that must be in the same stage, ordered by what they depend on. */
import { ShoalError } from '../../../base/errors/errors.js';
import type { Operation } from '../../../tensorflow/graph/operation.js';
import type { NeededOps } from './needed.js';
import { waits } from './op-kinds.js';
import { UnionFind } from './union-find.js';

export interface Unit {
  readonly ops: Operation[];
  readonly task: string;
  /** A stage of its own. */
  readonly isolated: boolean;
  readonly before: Set<Unit>;
  readonly after: Set<Unit>;
  level: number;
}

/** The ops that must be in the same stage: single ops, and complete loops and conditionals. */
export function makeUnits(
  anchored: readonly Operation[],
  needed: NeededOps,
  taskOf: ReadonlyMap<Operation, string>,
  self: string,
): Unit[] {
  const groups = new UnionFind<Operation>();
  const before = (op: Operation) => [
    ...needed
      .inputsOf(op)
      .map((input) => input.op)
      .filter((input) => !needed.isCopied(input)),
    ...needed.waitsFor(op),
  ];
  for (const op of anchored)
    if (needed.isInRegion(op))
      for (const input of before(op)) if (needed.isInRegion(input)) groups.join(input, op);

  const units = new Map<Operation, Unit>();
  const unitOf = (op: Operation): Unit => {
    const root = groups.find(op);
    const task = taskOf.get(op) as string;
    let unit = units.get(root);
    if (!unit) {
      const isolated = waits(op) && task !== self && !needed.isInRegion(op);
      unit = { ops: [], task, isolated, before: new Set(), after: new Set(), level: 0 };
      units.set(root, unit);
    }
    if (unit.task !== task) {
      throw cannotDivide(op, `it is on ${task}, inside a loop or conditional with ops on ${unit.task}`);
    }
    return unit;
  };
  for (const op of anchored) unitOf(op).ops.push(op);
  for (const op of anchored) {
    const unit = unitOf(op);
    for (const input of before(op)) {
      const earlier = unitOf(input);
      if (earlier === unit) continue;
      unit.before.add(earlier);
      earlier.after.add(unit);
    }
  }
  return [...units.values()];
}

/** Every unit behind those before it. */
export function sorted(units: readonly Unit[]): Unit[] {
  const missing = new Map(units.map((unit) => [unit, unit.before.size]));
  const order = units.filter((unit) => unit.before.size === 0);
  for (const unit of order) {
    for (const later of unit.after) {
      const left = (missing.get(later) as number) - 1;
      missing.set(later, left);
      if (left === 0) order.push(later);
    }
  }
  if (order.length < units.length) {
    const stuck = units.find((unit) => (missing.get(unit) as number) > 0) as Unit;
    throw cannotDivide(
      stuck.ops[0] as Operation,
      'a loop or conditional depends on another task while it runs',
    );
  }
  return order;
}

export function cannotDivide(op: Operation, why: string): ShoalError {
  return new ShoalError('SHOAL_UNSUPPORTED', `The direct engine cannot divide this run at ${op}: ${why}`, {
    op: op.name,
    hint: "Run the job with engine: 'grpc' (--engine=grpc).",
  });
}
