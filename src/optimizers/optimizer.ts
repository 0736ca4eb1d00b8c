/**
 * What all optimizers share: gradients, slots, and one op that applies everything. An optimizer says which
 * slots it keeps and how one variable is updated, by a dense gradient or by some rows. The updates of a
 * step run beside each other; the global step is counted when all are done.
 */
import { invalid } from '../errors/errors.js';
import { type Gradient, gradients, IndexedSlices } from '../gradients/index.js';
import { currentGraph, type Graph } from '../graph/graph.js';
import type { Operation, Output } from '../graph/operation.js';
import type { Operand } from '../ops/build.js';
import { constant, group } from '../ops/creation.js';
import * as raw from '../ops/generated/index.js';
import { Tensor } from '../tensor/tensor.js';
import { GraphKeys } from '../variables/collections.js';
import { getGlobalStep } from '../variables/global-step.js';
import { PartitionedVariable } from '../variables/partitioned.js';
import type { Variable } from '../variables/variable.js';
import { newVariable, trainableVariables } from '../variables/variable-scope.js';
import { checkFloating, checkPairs, noGradients } from './check.js';
import { Hyperparameters, scalarConstant } from './hyperparameters.js';
import { packTravellers } from './pack.js';
import { createSlot, filledLike } from './slots.js';

export type GradientAndVariable = readonly [Gradient | null, Variable];

export interface ComputeGradientsOptions {
  /** What to train; the trainable variables of the graph when left out. */
  readonly varList?: readonly (Variable | PartitionedVariable)[];
  /** The gradient that flows into the loss; ones when left out. */
  readonly gradLoss?: Operand;
}

export interface ApplyGradientsOptions {
  /** Counted up by one after the updates. */
  readonly globalStep?: Variable;
  readonly name?: string;
  /** Stands between gradients and updates, on the devices of the variables. */
  readonly guard?: UpdateGuard | undefined;
}

/** Decides, where the variables are, whether a step is applied, and notes that it was. */
export interface UpdateGuard {
  /** The gradients as they are to be applied, in the same order: they come when all of a device are there and it says yes. */
  admit(pairs: readonly (readonly [Gradient, Variable])[]): readonly (readonly [Gradient, Variable])[];
  /** What is to be done besides, given the updates. */
  ended(updates: readonly Operation[]): readonly Operation[];
}

export interface OptimizerOptions {
  /** Lets no two updates of one variable overlap. */
  readonly useLocking?: boolean;
  /** The name of the train op, and of the slots after the variable's. */
  readonly name?: string;
}

export interface SlotSpec {
  /** What `getSlot` calls it. */
  readonly slot: string;
  /** With what it is filled at first. */
  readonly initial: number;
  /** What it is called after the variable's name, if not by the optimizer's name. */
  readonly suffix?: string | undefined;
}

export abstract class Optimizer {
  readonly name: string;
  readonly useLocking: boolean;
  readonly #slots = new Map<string, Map<Variable, Variable>>();
  readonly #shared = new Map<Graph, Map<string, Variable>>();

  constructor({ name, useLocking = false }: OptimizerOptions, defaultName: string) {
    this.name = name ?? defaultName;
    this.useLocking = useLocking;
  }

  /** In the order in which they are made, which numbers their names. */
  protected abstract readonly slots: readonly SlotSpec[];

  protected abstract applyDense(gradient: Output, variable: Variable, values: Hyperparameters): Operation;

  /** Every row of the gradient is there once, unless the optimizer takes duplicates. */
  protected abstract applySparse(
    gradient: IndexedSlices,
    variable: Variable,
    values: Hyperparameters,
  ): Operation;

  /** Whether `applySparse` takes rows that repeat. */
  protected readonly takesDuplicates: boolean = false;

  /** Variables that belong to the optimizer as a whole. */
  protected createShared(_variables: readonly Variable[]): void {}

  /** What else is done once all updates are; the ops of the whole step. */
  protected finish(updates: readonly Operation[], _values: Hyperparameters): readonly Operation[] {
    return updates;
  }

  /** The op that computes the gradients of the loss and applies them. */
  minimize(loss: Output, options: ComputeGradientsOptions & ApplyGradientsOptions = {}): Operation {
    const pairs = this.computeGradients(loss, options);
    if (pairs.every(([gradient]) => gradient === null)) {
      throw noGradients(
        this.name,
        pairs.map(([, variable]) => variable),
        loss,
      );
    }
    return this.applyGradients(pairs, options);
  }

  /** The gradient of each variable, null where the loss does not depend on it. */
  computeGradients(loss: Output, options: ComputeGradientsOptions = {}): GradientAndVariable[] {
    checkFloating(`The loss ${loss}`, loss.dtype);
    const variables = flatten(options.varList ?? trainableVariables(loss.graph));
    if (variables.length === 0) {
      throw invalid(`There are no variables for ${this.name} to train`, {
        hint: 'Make variables before minimize, leave them trainable, or name them in varList.',
      });
    }
    for (const variable of variables) checkFloating(`Variable '${variable.name}'`, variable.dtype);
    const found = gradients([loss], variables, {
      ...(options.gradLoss === undefined ? {} : { gradYs: [options.gradLoss] }),
    });
    return variables.map((variable, i) => [found[i] ?? null, variable]);
  }

  /** The op that applies gradients, which may have been clipped or averaged since they were computed. */
  applyGradients(pairs: readonly GradientAndVariable[], options: ApplyGradientsOptions = {}): Operation {
    const given = checkPairs(this.name, pairs);
    const variables = given.map(([, variable]) => variable);
    const graph = (variables[0] as Variable).graph;
    const { globalStep, guard } = options;
    return graph.asDefault(() => {
      this.createShared(variables);
      for (const variable of variables) this.#createSlots(variable);
      const trainOp = graph.nameScope(options.name ?? this.name, (scope) => {
        const values = new Hyperparameters(graph, scope, globalStep ?? getGlobalStep(graph));
        const travelling = packTravellers(graph, this.#once(given));
        const updates = (guard?.admit(travelling) ?? travelling).map(([gradient, variable]) =>
          graph.nameScope(`update_${variable.name}`, () =>
            graph.colocateWith(variable.handle, () => this.#update(gradient, variable, values)),
          ),
        );
        const all = [...this.finish(updates, values), ...(guard?.ended(updates) ?? [])];
        return globalStep
          ? countStep(graph, globalStep, all, scope)
          : groupBesideFirst(graph, joinByDevice(graph, all), scope);
      });
      graph.addToCollection(GraphKeys.trainOp, trainOp);
      return trainOp;
    });
  }

  /** Adds up repeated rows, where that is to be done. */
  #once<P extends readonly [Gradient, Variable]>(pairs: readonly P[]): (readonly [Gradient, Variable])[] {
    return pairs.map(([gradient, variable]) => {
      const repeats = gradient instanceof IndexedSlices && !this.takesDuplicates;
      return [repeats ? deduplicate(gradient) : gradient, variable];
    });
  }

  #update(gradient: Gradient, variable: Variable, values: Hyperparameters): Operation {
    return gradient instanceof IndexedSlices
      ? this.applySparse(gradient, variable, values)
      : this.applyDense(gradient, variable, values);
  }

  /** The slot of a variable; undefined when gradients were not applied to it. */
  getSlot(variable: Variable, slot: string): Variable | undefined {
    return this.#slots.get(slot)?.get(variable);
  }

  get slotNames(): string[] {
    return this.slots.map(({ slot }) => slot).sort();
  }

  /** Everything that the optimizer remembers in a graph, by name. */
  variables(graph: Graph = currentGraph()): Variable[] {
    const slots = [...this.#slots.values()].flatMap((byVariable) => [...byVariable.values()]);
    return [...(this.#shared.get(graph)?.values() ?? []), ...slots]
      .filter((variable) => variable.graph === graph)
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** The handle of a slot, for an update op. */
  protected slotHandle(variable: Variable, slot: string): Output<'resource'> {
    return this.slot(variable, slot).handle;
  }

  protected slot(variable: Variable, slot: string): Variable {
    const found = this.getSlot(variable, slot);
    if (!found) throw invalid(`${this.name} has no slot '${slot}' of variable '${variable.name}'`);
    return found;
  }

  #createSlots(variable: Variable): void {
    for (const { slot, initial, suffix } of this.slots) {
      const byVariable = this.#slots.get(slot) ?? new Map<Variable, Variable>();
      this.#slots.set(slot, byVariable);
      if (byVariable.has(variable)) continue;
      byVariable.set(
        variable,
        createSlot(variable, suffix ?? this.name, () => filledLike(variable, initial)),
      );
    }
  }

  /** A scalar that is not of one variable, made once in a graph, on the device of `beside`. */
  protected createSharedScalar(name: string, initial: number, beside: Variable): void {
    const shared = this.#shared.get(beside.graph) ?? new Map<string, Variable>();
    this.#shared.set(beside.graph, shared);
    if (shared.has(name)) return;
    const made = beside.graph.colocateWith(beside.handle, () =>
      newVariable(() => scalarConstant(initial, 'float32', 'initial_value'), { name, trainable: false }),
    );
    shared.set(name, made);
  }

  protected sharedScalar(graph: Graph, name: string): Variable {
    return this.#shared.get(graph)?.get(name) as Variable;
  }
}

function flatten(list: readonly (Variable | PartitionedVariable)[]): Variable[] {
  return list.flatMap((item) => (item instanceof PartitionedVariable ? [...item.parts] : [item]));
}

/**
 * Adds up repeated rows on the device where the gradient is made: what travels to the variable is no more
 * than the rows that change.
 */
function deduplicate(gradient: IndexedSlices): IndexedSlices {
  const { graph, op } = gradient.values;
  return graph.colocateWith(op, () => gradient.deduplicated());
}

/**
 * One op for each device: whoever waits for all of them hears from each device once. A wait of one task for
 * another is a call over the network, so nobody waits who need not, the worker least of all.
 */
function joinByDevice(graph: Graph, ops: readonly Operation[]): Operation[] {
  const byDevice = new Map<string, Operation[]>();
  for (const op of ops) byDevice.set(op.device, [...(byDevice.get(op.device) ?? []), op]);
  return [...byDevice].map(([device, own]) =>
    own.length === 1 ? (own[0] as Operation) : onDevice(graph, device, () => group(own, { name: 'update' })),
  );
}

function groupBesideFirst(graph: Graph, ops: readonly Operation[], name: string): Operation {
  return onDevice(graph, ops[0]?.device ?? '', () => group(ops, { name }));
}

const onDevice = <T>(graph: Graph, device: string, build: () => T): T =>
  graph.device(null, () => graph.device(device, build));

function countStep(
  graph: Graph,
  globalStep: Variable,
  updates: readonly Operation[],
  name: string,
): Operation {
  const updated = joinByDevice(graph, updates);
  return graph.colocateWith(globalStep.handle, () => {
    const one = constant(Tensor.of(1, { dtype: globalStep.dtype }));
    return graph.controlDependencies(updated, () =>
      raw.assignAddVariableOp(globalStep.handle, one, { name }),
    );
  });
}
