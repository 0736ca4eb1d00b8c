/**
 * Which ops run better late than early. The read of a large variable that only later ops of the same task use runs beside
 * them: otherwise the task keeps the value meanwhile, and TensorFlow copies the variable when it is updated.
 */
import { isPure } from '../../../tensorflow/graph/op-def.js';
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { DTYPES } from '../../../tensorflow/tensor/dtype.js';
import type { NeededOps } from './needed.js';
import { isHandle } from './op-kinds.js';
import type { Unit } from './units.js';

/** Read a variable and do nothing else. */
const READS = /^(ReadVariableOp|ResourceGather|ResourceGatherNd|VariableShape|VarIsInitializedOp)$/;

/** A smaller tensor may as well be kept. */
const LARGE_BYTES = 16 * 1024;
/** Counts for an axis whose length is not known, and for a shape of unknown rank. */
const UNKNOWN_AXIS = 128;
const UNKNOWN_BYTES = 1 << 20;

export class Lateness {
  readonly #needed: NeededOps;
  readonly #self: string;
  /** The units that may write each object, by the name of the object. */
  readonly #writers = new Map<string, Set<Unit>>();

  constructor(units: readonly Unit[], needed: NeededOps, self: string) {
    this.#needed = needed;
    this.#self = self;
    for (const unit of units)
      for (const op of unit.ops) {
        if (READS.test(op.type)) continue;
        for (const name of this.#objectsOf(op)) {
          const known = this.#writers.get(name) ?? new Set();
          this.#writers.set(name, known.add(unit));
        }
      }
  }

  /** Whether the unit makes a large tensor that only its own task uses, out of less. */
  isBetter({ ops, task, after, isolated }: Unit): boolean {
    const [op] = ops;
    if (!op || ops.length > 1 || isolated || task === this.#self || after.size === 0) return false;
    if (!READS.test(op.type) && !isPure(op)) return false;
    if (Array.from(after).some((unit) => unit.task !== task)) return false;
    const made = sum(op.outputs.map(tensorBytes));
    const inputs = this.#needed.inputsOf(op).filter((input) => !this.#needed.isCopied(input.op));
    return made >= LARGE_BYTES && made > sum(inputs.map(tensorBytes));
  }

  /**
   * Whether the unit gets the same value at any time: each write of the run is ordered with it. Levels do not order stages
   * that do not depend on each other.
   */
  isSame(unit: Unit): boolean {
    const writers = new Set(
      unit.ops.flatMap((op) =>
        [...this.#objectsOf(op)].flatMap((name) => [...(this.#writers.get(name) ?? [])]),
      ),
    );
    if (writers.size === 0) return true;
    const ordered = new Set([...reach(unit, ({ after }) => after), ...reach(unit, ({ before }) => before)]);
    return Array.from(writers).every((writer) => ordered.has(writer));
  }

  /** The names of the objects whose handles the op takes. */
  #objectsOf(op: Operation): ReadonlySet<string> {
    return new Set(
      op.inputs
        .filter((input) => isHandle(input.op))
        .map((input) => String(input.op.attr('shared_name') || input.op.name)),
    );
  }
}

function reach(from: Unit, next: (unit: Unit) => ReadonlySet<Unit>): Set<Unit> {
  const seen = new Set([from]);
  for (const unit of seen) for (const other of next(unit)) seen.add(other);
  return seen;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);

/** The size of a tensor, as far as its shape is known. */
export function tensorBytes({ dtype, shape }: Output): number {
  if (dtype === 'resource') return 0;
  if (shape === null) return UNKNOWN_BYTES;
  return (DTYPES[dtype].size || 64) * shape.reduce<number>((n, dim) => n * (dim ?? UNKNOWN_AXIS), 1);
}
