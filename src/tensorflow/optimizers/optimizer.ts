/**
 * The base of all optimizers: gradients, slots, and one op that applies all updates. A subclass declares its
 * slots and how a dense or a sparse gradient updates one variable. The updates of a step run in parallel; the
 * global step is incremented after all of them.
 */

import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import { type Gradient, gradients, IndexedSlices } from '../gradients/index.js';
import { currentGraph, type Graph } from '../graph/graph.js';
import type { Operation, Output } from '../graph/operation.js';
import type { Operand } from '../ops/build.js';
import { constant, group } from '../ops/creation.js';
import * as raw from '../ops/generated/index.js';
import { isFloating } from '../tensor/dtype.js';
import { Tensor } from '../tensor/tensor.js';
import { GraphKeys } from '../variables/collections.js';
import { getGlobalStep } from '../variables/global-step.js';
import { PartitionedVariable } from '../variables/partitioned.js';
import type { Variable } from '../variables/variable.js';
import { newVariable, trainableVariables } from '../variables/variable-scope.js';
import { checkFloating, checkPairs, noGradients } from './check.js';
import { type Hyperparameter, Hyperparameters, scalarConstant } from './hyperparameters.js';
import { packTravellers } from './pack.js';
import { createSlot, filledLike } from './slots.js';

export type GradientAndVariable = readonly [Gradient | null, Variable];

export interface ComputeGradientsOptions {
  /** The variables to train. Default: all trainable variables of the graph. */
  readonly varList?: readonly (Variable | PartitionedVariable)[];
  /** The gradient of the loss itself. Default: ones. */
  readonly gradLoss?: Operand;
}

export interface ApplyGradientsOptions {
  /** Incremented by one after the updates; default: none. */
  readonly globalStep?: Variable;
  /** The name of the train op; default: the optimizer's name. */
  readonly name?: string;
  /** Decides on the variables' devices whether the updates are applied; default: none, they are. */
  readonly guard?: UpdateGuard;
  /** Multiplies the learning rate, a scalar; default: 1. */
  readonly rateFactor?: Output;
}

/** Decides, on the devices of the variables, whether a step is applied, and records that it was. */
export interface UpdateGuard {
  /** Returns the gradients in the same order, available once all of a device have arrived and the guard accepts. */
  admit(pairs: readonly (readonly [Gradient, Variable])[]): readonly (readonly [Gradient, Variable])[];
  /** Further ops of the step, given the updates. */
  ended(updates: readonly Operation[]): readonly Operation[];
}

export interface OptimizerOptions {
  /** Serializes the updates of each variable. Default: false. */
  readonly useLocking?: boolean;
  /** The name of the train op, and the suffix of slot names; default: TensorFlow's, such as `Adam`. */
  readonly name?: string;
}

export interface SlotSpec {
  /** The name for `getSlot`. */
  readonly slot: string;
  /** The initial value of every element. */
  readonly initial: number;
  /** The suffix of the slot's name. Default: the optimizer's name. */
  readonly suffix?: string;
}

export abstract class Optimizer {
  readonly name: string;
  readonly useLocking: boolean;
  /** Default: none, for optimizers without one. */
  readonly learningRate?: Hyperparameter;
  readonly #slots = new Map<string, Map<Variable, Variable>>();
  readonly #shared = new Map<Graph, Map<string, Variable>>();

  constructor({ name, useLocking }: OrNull<OptimizerOptions>, defaultName: string) {
    this.name = name ?? defaultName;
    this.useLocking = useLocking ?? false;
  }

  /** In order of creation, which numbers their names. */
  protected abstract readonly slots: readonly SlotSpec[];

  protected abstract applyDense(gradient: Output, variable: Variable, values: Hyperparameters): Operation;

  /** The gradient has no repeated rows, unless `takesDuplicates`. */
  protected abstract applySparse(
    gradient: IndexedSlices,
    variable: Variable,
    values: Hyperparameters,
  ): Operation;

  /** Whether `applySparse` accepts repeated rows. */
  protected readonly takesDuplicates: boolean = false;

  /** Creates variables that all trained variables share. */
  protected createShared(_variables: readonly Variable[]): void {}

  /** The optimizer that updates the variable. Default: this one. */
  protected ownerOf(_variable: Variable): Optimizer {
    return this;
  }

  /** Adds ops that run after all updates; returns all ops of the step. */
  protected finish(updates: readonly Operation[], _values: Hyperparameters): readonly Operation[] {
    return updates;
  }

  /** The op that computes the gradients of the loss and applies them. */
  minimize(loss: Output, given: OrNull<ComputeGradientsOptions & ApplyGradientsOptions> = {}): Operation {
    const options = withoutNull<ComputeGradientsOptions & ApplyGradientsOptions>(given);
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

  /** The gradient of each variable; null if the loss does not depend on it. */
  computeGradients(loss: Output, given: OrNull<ComputeGradientsOptions> = {}): GradientAndVariable[] {
    const options = withoutNull<ComputeGradientsOptions>(given);
    checkFloating(`The loss ${loss}`, loss.dtype);
    const variables = flatten(options.varList ?? trainableVariables(loss.graph));
    if (variables.length === 0) {
      throw invalid(`${this.name}: there are no variables to train`, {
        hint: 'Create trainable variables before calling minimize, or pass varList.',
      });
    }
    // As in TensorFlow, variables without gradients, such as integers, are ignored.
    const trained = variables.filter(({ dtype }) => isFloating(dtype));
    const found = gradients([loss], trained, {
      ...(options.gradLoss === undefined ? {} : { gradYs: [options.gradLoss] }),
    });
    return variables.map((variable) => [found[trained.indexOf(variable)] ?? null, variable]);
  }

  /** The op that applies the gradients, for example after clipping. */
  applyGradients(
    pairs: readonly GradientAndVariable[],
    options: OrNull<ApplyGradientsOptions> = {},
  ): Operation {
    const given = checkPairs(this.name, pairs);
    const variables = given.map(([, variable]) => variable);
    const graph = (variables[0] as Variable).graph;
    const { globalStep, guard, rateFactor, name = this.name } = withoutNull<ApplyGradientsOptions>(options);
    const owners = new Set(variables.map((variable) => this.ownerOf(variable)));
    return graph.asDefault(() => {
      for (const owner of owners)
        owner.#prepare(variables.filter((variable) => this.ownerOf(variable) === owner));
      const trainOp = graph.nameScope(name, (scope) => {
        const step = globalStep ?? getGlobalStep(graph);
        const values = new Hyperparameters(graph, scope, step, rateFactor);
        const travelling = packTravellers(graph, this.#once(given));
        const updates = (guard?.admit(travelling) ?? travelling).map(([gradient, variable]) => {
          const owner = this.ownerOf(variable);
          const op = graph.nameScope(`update_${variable.name}`, () =>
            graph.colocateWith(variable.handle, () => owner.#update(gradient, variable, values)),
          );
          return { owner, op };
        });
        const finished = [...owners].flatMap((owner) =>
          owner.finish(
            updates.filter((update) => update.owner === owner).map(({ op }) => op),
            values,
          ),
        );
        const all = [...finished, ...(guard?.ended(updates.map(({ op }) => op)) ?? [])];
        return globalStep
          ? countStep(graph, globalStep, all, scope)
          : groupBesideFirst(graph, joinByDevice(graph, all), scope);
      });
      graph.addToCollection(GraphKeys.trainOp, trainOp);
      return trainOp;
    });
  }

  /** Creates the variables of this optimizer. */
  #prepare(variables: readonly Variable[]): void {
    this.createShared(variables);
    for (const variable of variables) this.#createSlots(variable);
  }

  /** Sums repeated rows, unless the optimizer accepts them. */
  #once<P extends readonly [Gradient, Variable]>(pairs: readonly P[]): (readonly [Gradient, Variable])[] {
    return pairs.map(([gradient, variable]) => {
      const repeats = gradient instanceof IndexedSlices && !this.ownerOf(variable).takesDuplicates;
      return [repeats ? deduplicate(gradient) : gradient, variable];
    });
  }

  #update(gradient: Gradient, variable: Variable, values: Hyperparameters): Operation {
    return gradient instanceof IndexedSlices
      ? this.applySparse(gradient, variable, values)
      : this.applyDense(gradient, variable, values);
  }

  /** The slot of a variable; undefined if no gradients were applied to it. */
  getSlot(variable: Variable, slot: string): Variable | undefined {
    return this.#slots.get(slot)?.get(variable);
  }

  get slotNames(): string[] {
    return this.slots.map(({ slot }) => slot).sort();
  }

  /** All variables of the optimizer in a graph, sorted by name. */
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
    if (!found) throw invalid(`${this.name} has no slot '${slot}' for variable '${variable.name}'`);
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

  /** A scalar shared by all variables, created once per graph, on the device of `beside`. */
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
 * Sums repeated rows on the device that computes the gradient, so that each changed row is sent to the variable once.
 */
function deduplicate(gradient: IndexedSlices): IndexedSlices {
  const { graph, op } = gradient.values;
  return graph.colocateWith(op, () => gradient.deduplicated());
}

/**
 * One op per device, so that an op that depends on all of them has one dependency per device. A dependency between
 * tasks is a network call.
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
