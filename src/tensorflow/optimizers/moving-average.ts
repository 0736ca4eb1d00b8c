/**
 * Exponential moving averages of variables: `a ← a − (1 − d)·(a − w)`, d near 1. Models often score better
 * with the averages than with the last values. An average is a slot of its variable, named
 * `w/ExponentialMovingAverage`, and starts at the variable's initial value.
 */

import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import { currentGraph } from '../graph/graph.js';
import type { Operation, Output, OutputLike } from '../graph/operation.js';
import { condOne } from '../ops/control-flow.js';
import { group, zeros } from '../ops/creation.js';
import { add, cast, div, minimum, mul, pow, sub } from '../ops/math.js';
import { isFullyDefined } from '../tensor/shape.js';
import { GraphKeys } from '../variables/collections.js';
import { PartitionedVariable } from '../variables/partitioned.js';
import { Variable } from '../variables/variable.js';
import { currentVariableScope, globalVariables, trainableVariables } from '../variables/variable-scope.js';
import { checkFloating } from './check.js';
import { checkHyperparameter, type ScalarLike, scalarConstant } from './hyperparameters.js';
import { createSlot, freeName } from './slots.js';

export interface ExponentialMovingAverageOptions {
  /** Usually the global step n: limits the decay to (1 + n) / (10 + n) early in training. Default: no limit. */
  readonly numUpdates?: ScalarLike;
  /** Corrects the bias of tensor averages, which start at zero. Default: false. */
  readonly zeroDebias?: boolean;
  /** The suffix of the averages' names; default: `ExponentialMovingAverage`. */
  readonly name?: string;
}

export type Averaged = Variable | PartitionedVariable | Output;

/** The helper variables of a bias-corrected average. */
interface Debias {
  readonly biased: Variable;
  readonly localStep: Variable;
}

export class ExponentialMovingAverage {
  readonly name: string;
  readonly #decay: ScalarLike;
  readonly #numUpdates: ScalarLike | undefined;
  readonly #zeroDebias: boolean;
  readonly #averages = new Map<Variable | Output, Variable>();
  readonly #debias = new Map<Variable, Debias>();

  constructor(decay: ScalarLike, given: OrNull<ExponentialMovingAverageOptions> = {}) {
    const options = withoutNull<ExponentialMovingAverageOptions>(given);
    this.name = options.name ?? 'ExponentialMovingAverage';
    checkHyperparameter(this.name, 'decay', decay, { min: 0, max: 1 });
    this.#decay = decay;
    this.#numUpdates = options.numUpdates;
    this.#zeroDebias = options.zeroDebias ?? false;
  }

  /** Creates missing averages and returns the op that updates all of `list`; run it after each step. */
  apply(list?: readonly Averaged[]): Operation {
    const items = flatten(list ?? trainableVariables());
    const first = items[0];
    if (!first) throw invalid('There are no variables to average');
    const { graph } = first;
    return graph.asDefault(() => {
      for (const item of items) this.#create(item);
      return graph.nameScope(this.name, (scope) => {
        const decay = this.#currentDecay();
        const updates = items.map((item) => this.#update(this.average(item) as Variable, item, decay));
        return group(updates, { name: scope });
      });
    });
  }

  /** The average of a variable or tensor; undefined if it was not passed to `apply`. */
  average(item: Variable | Output): Variable | undefined {
    return this.#averages.get(item);
  }

  /** The name of the average. Works without `apply`, for programs that only read checkpoints. */
  averageName(item: Variable | Output): string {
    const name = item instanceof Variable ? item.name : item.op.name;
    return this.average(item)?.name ?? `${name}/${this.name}`;
  }

  /** The variables for a Saver that restores averages: checkpoint name → variable that receives the average. */
  variablesToRestore(movingAverageVariables?: readonly Variable[]): Map<string, Variable> {
    const averaged = new Set(
      movingAverageVariables ?? [
        ...trainableVariables(),
        ...currentGraph().getCollection<Variable>(GraphKeys.movingAverageVariables),
      ],
    );
    const names = new Map([...averaged].map((variable) => [this.averageName(variable), variable]));
    for (const variable of globalVariables()) {
      if (!averaged.has(variable) && !names.has(variable.name)) names.set(variable.name, variable);
    }
    return names;
  }

  #create(item: Variable | Output): void {
    const what = item instanceof Variable ? `Variable '${item.name}'` : item.toString();
    checkFloating(what, item.dtype);
    if (this.#averages.has(item)) return;
    if (item instanceof Variable) {
      this.#averages.set(
        item,
        createSlot(item, this.name, () => currentOrFirst(item)),
      );
      item.graph.addToCollection(GraphKeys.movingAverageVariables, item);
      return;
    }
    const { shape, dtype } = item;
    if (!isFullyDefined(shape)) throw invalid(`The average of ${item} needs a fully defined shape`);
    const average = createSlot(item, this.name, () => zeros(shape, dtype));
    this.#averages.set(item, average);
    if (this.#zeroDebias) this.#debias.set(average, createDebias(average));
  }

  #currentDecay(): Output {
    const decay =
      typeof this.#decay === 'number'
        ? scalarConstant(this.#decay, 'float32', 'decay')
        : cast(this.#decay, 'float32');
    if (this.#numUpdates === undefined) return decay;
    const updates = cast(
      typeof this.#numUpdates === 'number'
        ? scalarConstant(this.#numUpdates, 'float32', 'num_updates')
        : this.#numUpdates,
      'float32',
    );
    return minimum(decay, div(add(1, updates), add(10, updates)));
  }

  #update(average: Variable, item: Variable | Output, decay: Output): Operation {
    const { graph } = average;
    return graph.nameScope('AssignMovingAvg', () =>
      graph.colocateWith(average.handle, () => {
        const rest = cast(sub(1, decay), average.dtype);
        const debias = this.#debias.get(average);
        if (debias) return updateDebiased(average, debias, item, rest);
        return average.assignSub(mul(sub(average.read(), item), rest));
      }),
    );
  }
}

function flatten(list: readonly Averaged[]): (Variable | Output)[] {
  return list.flatMap((item) => (item instanceof PartitionedVariable ? [...item.parts] : [item]));
}

/** The variable's value, or its initial value if uninitialized: the order of initialisation does not matter. */
const currentOrFirst = (variable: Variable): Output =>
  condOne(
    variable.isInitialized(),
    () => variable.read(),
    () => variable.initialValue,
  );

function createDebias(average: Variable): Debias {
  const { graph, name, dtype } = average;
  const { prefix } = currentVariableScope(graph);
  const create = (suffix: string, shape: readonly number[]) =>
    graph.colocateWith(average.handle, () =>
      Variable.create({
        name: freeName(graph, `${prefix}${name}/${suffix}`),
        initialValue: () => zeros(shape, dtype),
        trainable: false,
      }),
    );
  return { biased: create('biased', average.fullShape), localStep: create('local_step', []) };
}

function updateDebiased(average: Variable, debias: Debias, value: OutputLike, rest: Output): Operation {
  const { graph } = average;
  const { biased, localStep } = debias;
  const moved = biased.assignSub(mul(sub(biased.read(), value), rest));
  const counted = localStep.assignAdd(1);
  return graph.controlDependencies([moved, counted], () =>
    average.assign(div(biased.read(), sub(1, pow(sub(1, rest), localStep.read())))),
  );
}
