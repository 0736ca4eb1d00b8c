/** The ops that a run needs, and which of them are copied into every stage that uses them. */
import type { Operation, Output } from '../../../tensorflow/graph/operation.js';
import { closesLoop, endsRegion, isHandle, isSmallAndPure, startsRegion } from './op-kinds.js';

export interface RunRequest {
  readonly fetches: readonly Output[];
  readonly targets: readonly Operation[];
  readonly feeds: readonly Output[];
}

/** The most ops that are copied for one value. */
const MOST_COPIED = 16;

export class NeededOps {
  /** In an order in which inputs come first, except for the edges that close loops. */
  readonly ops: readonly Operation[];
  readonly #fed: ReadonlySet<Output>;
  readonly #region: ReadonlySet<Operation>;
  readonly #copyCost = new Map<Operation, number>();
  readonly #waitsFor = new Map<Operation, ReadonlySet<Operation>>();
  readonly #controls = new Map<Operation, readonly Operation[]>();

  constructor({ fetches, targets, feeds }: RunRequest) {
    this.#fed = new Set(feeds);
    this.ops = this.#collect([
      ...fetches.filter((output) => !this.#fed.has(output)).map(({ op }) => op),
      ...targets,
    ]);
    this.#region = this.#regionOf(this.ops);
  }

  isFed(output: Output): boolean {
    return this.#fed.has(output);
  }

  /** The data inputs that the op itself computes from, without fed ones. */
  inputsOf(op: Operation): readonly Output[] {
    return op.inputs.filter((input) => !this.#fed.has(input));
  }

  /** The control inputs; TensorFlow is asked once. */
  #controlsOf(op: Operation): readonly Operation[] {
    let known = this.#controls.get(op);
    if (!known) {
      known = op.controlInputs;
      this.#controls.set(op, known);
    }
    return known;
  }

  #before(op: Operation): Operation[] {
    return [...this.inputsOf(op).map((input) => input.op), ...this.#controlsOf(op)];
  }

  /** Whether the op belongs to a loop or conditional of TensorFlow 1. */
  isInRegion(op: Operation): boolean {
    return this.#region.has(op);
  }

  /** A constant, a small value computed from constants, or a handle: copied into each stage that uses it. */
  isCopied(op: Operation): boolean {
    return this.#costOf(op) <= MOST_COPIED;
  }

  /** Only orders other ops: stages wait for the ops that it waits for instead. */
  isElided(op: Operation): boolean {
    return op.type === 'NoOp' && !this.#region.has(op);
  }

  /** Whether the op is executed once, in one stage. */
  isAnchored(op: Operation): boolean {
    return !this.isElided(op) && !this.isCopied(op);
  }

  /**
   * The anchored ops that must have run before this one, by control edges: its own, and those of the copied ops among
   * its inputs, which have no control edges where they are copied.
   */
  waitsFor(op: Operation): ReadonlySet<Operation> {
    const known = this.#waitsFor.get(op);
    if (known) return known;
    const found = new Set<Operation>();
    const seen = new Set<Operation>([op]);
    for (const one of seen) {
      for (const input of this.inputsOf(one)) if (this.isCopied(input.op)) seen.add(input.op);
      for (const control of this.#controlsOf(one)) {
        if (this.isAnchored(control)) found.add(control);
        else seen.add(control);
      }
    }
    found.delete(op);
    this.#waitsFor.set(op, found);
    return found;
  }

  #costOf(op: Operation): number {
    const known = this.#copyCost.get(op);
    if (known !== undefined) return known;
    // A cycle or an op that is being computed is not copied.
    this.#copyCost.set(op, Number.POSITIVE_INFINITY);
    const cost = this.#computeCost(op);
    this.#copyCost.set(op, cost);
    return cost;
  }

  #computeCost(op: Operation): number {
    // Inside a loop a control edge puts the op into the loop's frame.
    if (this.#region.has(op)) return Number.POSITIVE_INFINITY;
    if (isHandle(op)) return 1;
    if (!isSmallAndPure(op)) return Number.POSITIVE_INFINITY;
    let cost = 1;
    for (const input of op.inputs) {
      if (this.#fed.has(input) || isHandle(input.op)) return Number.POSITIVE_INFINITY;
      cost += this.#costOf(input.op);
      if (cost > MOST_COPIED) return Number.POSITIVE_INFINITY;
    }
    return cost;
  }

  #collect(roots: readonly Operation[]): Operation[] {
    const order: Operation[] = [];
    const seen = new Set<Operation>();
    const stack: { readonly op: Operation; readonly inputs: readonly Operation[]; at: number }[] = [];
    const enter = (op: Operation) => {
      if (seen.has(op)) return;
      seen.add(op);
      stack.push({ op, inputs: this.#before(op), at: 0 });
    };
    for (const root of roots) {
      enter(root);
      for (let top = stack.at(-1); top; top = stack.at(-1)) {
        const next = top.inputs[top.at++];
        if (next) enter(next);
        else {
          order.push(top.op);
          stack.pop();
        }
      }
    }
    return order;
  }

  /**
   * The ops that may run more than once or not at all: those between the start and the end of a loop or conditional,
   * and those after a start that no end follows.
   */
  #regionOf(ops: readonly Operation[]): ReadonlySet<Operation> {
    if (!ops.some((op) => startsRegion(op) || endsRegion(op))) return new Set();
    const before = (op: Operation) => this.#before(op);
    const consumers = new Map<Operation, Operation[]>();
    for (const op of ops)
      for (const input of before(op)) {
        const known = consumers.get(input);
        if (known) known.push(op);
        else consumers.set(input, [op]);
      }
    const after = (op: Operation) => consumers.get(op) ?? [];
    const starts = ops.filter(startsRegion);
    const downstream = reach(starts, after);
    const upstream = reach(ops.filter(endsRegion), before);
    const conditional = reach(starts, (op) => (endsRegion(op) ? [] : after(op)));
    return new Set(
      ops.filter(
        (op) =>
          conditional.has(op) || (downstream.has(op) && upstream.has(op)) || closesLoop(op) || endsRegion(op),
      ),
    );
  }
}

function reach(from: readonly Operation[], next: (op: Operation) => readonly Operation[]): Set<Operation> {
  const seen = new Set(from);
  for (const op of seen) for (const other of next(op)) seen.add(other);
  return seen;
}
