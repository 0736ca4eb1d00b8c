/** Variables by name: `tf.variable`, variable scopes and reuse, as TensorFlow 1's get_variable. */

import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import { FunctionGraph } from '../graph/function.js';
import { currentGraph, type Graph } from '../graph/graph.js';
import { inScope, type Scope, scopeOf, withExtra } from '../graph/scope.js';
import type { Operand } from '../ops/build.js';
import type { DType } from '../tensor/dtype.js';
import { formatShape, type Shape } from '../tensor/shape.js';
import { Tensor, type TensorLike } from '../tensor/tensor.js';
import { GraphKeys } from './collections.js';
import { constantInitializer, defaultInitializer, type Initializer } from './initializers.js';
import { PartitionedVariable, type Partitioner } from './partitioned.js';
import { Variable } from './variable.js';

export interface ScopeSettings {
  /** Ends with a slash, or is empty. */
  readonly prefix: string;
  /** false: variables must not exist; true: they must exist; 'auto': either. */
  readonly reuse: boolean | 'auto';
  readonly initializer: Initializer | undefined;
  readonly partitioner: Partitioner | undefined;
}

const SCOPE = Symbol('shoal.variableScope');
const ROOT: ScopeSettings = { prefix: '', reuse: false, initializer: undefined, partitioner: undefined };

const settingsOf = (graph: Graph): ScopeSettings =>
  (scopeOf(graph).extras[SCOPE] as ScopeSettings | undefined) ?? ROOT;

/** The caller's variable scope. Every entry into a scope creates a new object. */
export const currentVariableScope = (graph: Graph = currentGraph()): ScopeSettings => settingsOf(graph);

/** The variables of each graph by name. */
const stores = new WeakMap<Graph, Map<string, Variable | PartitionedVariable>>();

function storeOf(graph: Graph): Map<string, Variable | PartitionedVariable> {
  let store = stores.get(graph);
  if (!store) {
    store = new Map();
    stores.set(graph, store);
  }
  return store;
}

export interface VariableScopeOptions {
  /** false: variables must not exist; true: they must exist; 'auto': either. Default: that of the outer scope. */
  readonly reuse?: boolean | 'auto';
  /** The initializer of variables without one; default: that of the outer scope. */
  readonly initializer?: Initializer;
  /** The partitioner of variables without one; default: that of the outer scope. */
  readonly partitioner?: Partitioner;
}

/** Runs `body` with variables (and ops) named under `name/`. */
export function variableScope<T>(name: string, body: () => T, given: OrNull<VariableScopeOptions> = {}): T {
  const options = withoutNull<VariableScopeOptions>(given);
  const graph = currentGraph();
  const outer = settingsOf(graph);
  const inner: ScopeSettings = {
    prefix: name === '' ? outer.prefix : `${outer.prefix}${name}/`,
    reuse: options.reuse ?? outer.reuse,
    initializer: options.initializer ?? outer.initializer,
    partitioner: options.partitioner ?? outer.partitioner,
  };
  const run = () => withExtra(graph, SCOPE, inner, body);
  return name === '' ? graph.asDefault(run) : graph.nameScope(name, run);
}

/** Runs `body` in the variable scope with this full prefix, which ends with a slash or is empty, wherever the caller is. */
export function absoluteVariableScope<T>(
  prefix: string,
  body: () => T,
  { reuse }: Pick<VariableScopeOptions, 'reuse'> = {},
): T {
  const graph = currentGraph();
  const outer = settingsOf(graph);
  const inner: ScopeSettings = { ...outer, prefix, reuse: reuse ?? outer.reuse };
  return graph.asDefault(() => graph.nameScope(prefix, () => withExtra(graph, SCOPE, inner, body)));
}

export interface GetVariableOptions<D extends DType = DType> {
  /** The shape; default: that of the initial value. */
  readonly shape?: Shape;
  /** The dtype; default: 'float32'. */
  readonly dtype?: D;
  /** The initializer, or the initial value; default: the scope's, else Glorot uniform, zeros for integers. */
  readonly initializer?: Initializer | TensorLike;
  /** Whether optimizers update it; default: true. */
  readonly trainable?: boolean;
  /** The collections it is added to; default: the global variables. */
  readonly collections?: readonly string[];
  /** Splits the variable into partitions that may be on different tasks; null: none. Default: the scope's. */
  readonly partitioner?: Partitioner | null;
}

/**
 * The variable of this name in the current variable scope, created if the scope's `reuse` allows it. With a partitioner
 * use `partitionedVariable`.
 */
export function variable<D extends DType = 'float32'>(
  name: string,
  options: OrNull<GetVariableOptions<D>> = {},
): Variable<D> {
  const made = getVariable(name, { ...options, partitioner: null });
  return made as Variable<D>;
}

/** The same for a partitioned variable. */
export function partitionedVariable(name: string, options: OrNull<GetVariableOptions>): PartitionedVariable {
  const partitioner = options.partitioner ?? settingsOf(currentGraph()).partitioner;
  if (!partitioner)
    throw invalid(`partitionedVariable('${name}') needs a partitioner, in the call or in the variable scope`);
  return getVariable(name, { ...options, partitioner }) as PartitionedVariable;
}

/** A partitioned variable if the call or the scope has a partitioner, else a variable. */
export function getVariable<D extends DType = 'float32'>(
  name: string,
  given: OrNull<GetVariableOptions<D>> = {},
): Variable | PartitionedVariable {
  const options = withoutNull<GetVariableOptions<D>>(given, ['partitioner']);
  const home = homeScope();
  const settings = settingsOf(currentGraph());
  const fullName = settings.prefix + name;
  const store = storeOf(home.graph);
  const known = store.get(fullName);
  if (known) {
    if (settings.reuse === false) {
      throw invalid(`Variable '${fullName}' already exists`, {
        hint: 'Use another name, or share it: tf.variableScope(name, fn, { reuse: true }).',
      });
    }
    checkSame(known, options);
    return known;
  }
  if (settings.reuse === true) throw invalid(`Variable '${fullName}' does not exist and cannot be reused`);
  const { shape, make, ahead } = initialValue(fullName, options, settings.initializer);
  const partitioner =
    options.partitioner === null ? undefined : (options.partitioner ?? settings.partitioner);
  const common = {
    trainable: options.trainable ?? true,
    collections: options.collections,
  };
  const made = inScope(home, () =>
    partitioner
      ? PartitionedVariable.create({
          ...common,
          name: fullName,
          shape,
          dtype: options.dtype ?? 'float32',
          partitioner,
          make,
        })
      : Variable.create({ ...common, ...ahead, name: fullName, initialValue: () => make(shape) }),
  );
  store.set(fullName, made);
  return made;
}

/** The scope in which variables are created: outside all functions. */
function homeScope(): Scope {
  let scope = scopeOf(currentGraph());
  while (scope.graph instanceof FunctionGraph) scope = scope.graph.outerScope;
  return scope;
}

function initialValue(
  name: string,
  options: GetVariableOptions,
  inherited: Initializer | undefined,
): { shape: Shape; make: (shape: Shape) => Operand; ahead?: { shape: Shape; dtype: DType } } {
  const dtype = options.dtype ?? 'float32';
  const given = options.initializer;
  if (given !== undefined && typeof given !== 'function') {
    const value = given instanceof Tensor ? given : Tensor.of(given, { dtype });
    const shape = options.shape ?? value.shape;
    // A scalar fills any partition; a complete value is sliced on the variable's device.
    return {
      shape,
      make: (part) =>
        constantInitializer(value.size === 1 ? value.reshape([]) : value)(
          value.size === 1 ? part : shape,
          dtype,
        ),
    };
  }
  if (!options.shape) throw invalid(`Variable '${name}' needs a shape or an initial value`);
  const initializer = (given as Initializer | undefined) ?? inherited ?? defaultInitializer;
  return {
    shape: options.shape,
    make: (part) => initializer(part, dtype),
    ahead: { shape: options.shape, dtype },
  };
}

function checkSame(known: Variable | PartitionedVariable, options: GetVariableOptions): void {
  if (options.shape && formatShape(options.shape) !== formatShape(known.shape)) {
    throw invalid(
      `Variable '${known.name}' has shape ${formatShape(known.shape)}; requested ${formatShape(options.shape)}`,
    );
  }
  if (options.dtype && options.dtype !== known.dtype) {
    throw invalid(`Variable '${known.name}' is ${known.dtype}; requested ${options.dtype}`);
  }
}

export interface NewVariableOptions<D extends DType = DType> {
  /** Made unique in the current name scope, as TensorFlow 1's tf.Variable does; default: `Variable`. */
  readonly name?: string;
  /** The dtype; default: that of the initial value. */
  readonly dtype?: D;
  /** Whether optimizers update it; default: true. */
  readonly trainable?: boolean;
  /** The collections it is added to; default: the global variables. */
  readonly collections?: readonly string[];
}

/**
 * Creates a variable that is never shared: `tf.newVariable(tf.zeros([10]))`. As in TensorFlow, a whole number is an
 * integer; JavaScript does not tell 0.0 from 0, so a weight of that value needs `dtype: 'float32'`. A list of numbers is
 * float32, as in `tf.constant`: it is a weight more often than a counter.
 */
export function newVariable<D extends DType = DType>(
  initial: Operand | (() => Operand),
  options: OrNull<NewVariableOptions<D>> = {},
): Variable<D> {
  const { name = 'Variable', ...rest } = withoutNull<NewVariableOptions<D>>(options);
  const home = homeScope();
  return inScope(home, () => {
    const unique = home.graph.uniqueName(name);
    const dtype = rest.dtype ?? (wholeNumberType(initial) as D | undefined);
    const made = Variable.create<D>({
      ...rest,
      dtype,
      name: unique,
      initialValue: initial,
    });
    storeOf(home.graph).set(unique, made as unknown as Variable);
    return made;
  });
}

function wholeNumberType(initial: unknown): 'int32' | 'int64' | undefined {
  if (!Number.isSafeInteger(initial)) return undefined;
  return initial === ((initial as number) | 0) ? 'int32' : 'int64';
}

export const globalVariables = (graph: Graph = currentGraph()): Variable[] =>
  graph.getCollection(GraphKeys.globalVariables);
export const trainableVariables = (graph: Graph = currentGraph()): Variable[] =>
  graph.getCollection(GraphKeys.trainableVariables);
export const localVariables = (graph: Graph = currentGraph()): Variable[] =>
  graph.getCollection(GraphKeys.localVariables);
