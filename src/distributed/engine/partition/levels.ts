/**
 * Assigns ops to stages. An op's level is one above that of an op on another task that it depends on. The ops of one
 * task and level form a stage. An op whose level is not determined by its neighbours joins a stage that exists anyway,
 * so that a task has few stages: the first one, or the last one if the task would have to keep a large tensor between
 * the two (lateness.ts).
 */
import type { Operation } from '../../../tensorflow/graph/operation.js';
import { Lateness } from './lateness.js';
import type { NeededOps } from './needed.js';
import { isAtomic } from './op-kinds.js';
import { makeUnits, sorted, type Unit } from './units.js';

export interface StageOps {
  readonly task: string;
  readonly ops: readonly Operation[];
  /** The only op of the stage waits for other runs, and has no effect until it succeeds. */
  readonly waits: boolean;
}

export interface StageAssignment {
  /** By level: every stage comes after those it depends on. */
  readonly stages: readonly StageOps[];
  readonly stageOf: ReadonlyMap<Operation, number>;
}

export function assignStages(
  anchored: readonly Operation[],
  needed: NeededOps,
  taskOf: ReadonlyMap<Operation, string>,
  self: string,
): StageAssignment {
  const units = makeUnits(anchored, needed, taskOf, self);
  const order = sorted(units);
  chooseLevels(order, new Lateness(order, needed, self));

  const byKey = new Map<string, { task: string; level: number; waits: boolean; ops: Set<Operation> }>();
  for (const { ops, task, level, isolated } of order) {
    const key = JSON.stringify([level, task, isolated ? ops[0]?.name : null]);
    const stage = byKey.get(key) ?? { task, level, waits: isolated && ops.every(isAtomic), ops: new Set() };
    byKey.set(key, stage);
    for (const op of ops) stage.ops.add(op);
  }
  // The order of the graph, not that of the units: plans of the same graph are the same.
  const position = new Map(anchored.map((op, at) => [op, at]));
  const stages = [...byKey.values()]
    .map((stage) => ({
      ...stage,
      ops: [...stage.ops].sort((a, b) => (position.get(a) as number) - (position.get(b) as number)),
    }))
    .sort((a, b) => a.level - b.level || compare(a.task, b.task) || compare(nameOf(a.ops), nameOf(b.ops)));
  const stageOf = new Map(stages.flatMap(({ ops }, at) => ops.map((op) => [op, at] as const)));
  return { stages, stageOf };
}

const distance = (a: Unit, b: Unit): number => (a.task !== b.task || a.isolated || b.isolated ? 1 : 0);

function chooseLevels(order: readonly Unit[], lateness: Lateness): void {
  const earliest = new Map<Unit, number>();
  const latest = new Map<Unit, number>();
  const at = (levels: ReadonlyMap<Unit, number>, unit: Unit) => levels.get(unit) as number;
  for (const unit of order)
    earliest.set(
      unit,
      Math.max(0, ...Array.from(unit.before, (one) => at(earliest, one) + distance(one, unit))),
    );
  // What nothing else uses runs as early as it can: its value is what it was at the beginning.
  for (const unit of order.toReversed())
    latest.set(
      unit,
      unit.after.size === 0
        ? at(earliest, unit)
        : Math.min(...Array.from(unit.after, (one) => at(latest, one) - distance(unit, one))),
    );
  const certain = new Set(
    order
      .filter((unit) => at(earliest, unit) === at(latest, unit))
      .map((unit) => `${at(latest, unit)} ${unit.task}`),
  );
  for (const unit of order) {
    const end = at(latest, unit);
    const isCertain = (level: number) => certain.has(`${level} ${unit.task}`);
    let level = Math.max(0, ...Array.from(unit.before, (one) => one.level + distance(one, unit)));
    while (level < end && !isCertain(level)) level += 1;
    let later = end;
    while (later > level && !isCertain(later)) later -= 1;
    const isKept = later > level && Array.from(unit.after).some((user) => at(earliest, user) > level);
    unit.level = isKept && lateness.isBetter(unit) && lateness.isSame(unit) ? later : level;
  }
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
const nameOf = (ops: readonly Operation[]): string => ops[0]?.name ?? '';
