/**
 * Several optimizers for one model, each with variables of its own: FTRL for the wide part and Adagrad for the deep part,
 * for example. All gradients are computed before any variable changes, and the step is counted once. Slots have the names
 * that each optimizer gives them.
 */
import { invalid } from '../../base/errors/errors.js';
import type { OrNull } from '../../base/errors/null-options.js';
import { knownOptions, type Names } from '../../base/errors/option-names.js';
import type { Graph } from '../graph/graph.js';
import type { Operation, Output } from '../graph/operation.js';
import { isFloating } from '../tensor/dtype.js';
import { PartitionedVariable } from '../variables/partitioned.js';
import type { Variable } from '../variables/variable.js';
import {
  type ApplyGradientsOptions,
  type ComputeGradientsOptions,
  type GradientAndVariable,
  Optimizer,
  type SlotSpec,
} from './optimizer.js';

export interface OptimizerEntry {
  /**
   * The variables: a pattern for their names, or a list. A partition has the name of the whole variable. Default: all
   * that no other entry is for.
   */
  readonly variables?: RegExp | readonly (Variable | PartitionedVariable)[];
  /** Their optimizer. */
  readonly use: Optimizer;
}

const ENTRY: Names<OptimizerEntry> = { variables: true, use: true };
const EXAMPLE =
  'For example [{ variables: /^wide\\//, use: tf.train.ftrl(0.1) }, { use: tf.train.adagrad(0.01) }].';

export class CombinedOptimizer extends Optimizer {
  /** Those of the entries' optimizers. */
  protected readonly slots: readonly SlotSpec[] = [];
  readonly entries: readonly OptimizerEntry[];

  constructor(given: readonly OrNull<OptimizerEntry>[], { name }: { readonly name?: string } = {}) {
    super({ name }, 'Combined');
    if (!Array.isArray(given) || given.length === 0)
      throw invalid(`${this.name} needs a list of optimizers with their variables`, { hint: EXAMPLE });
    this.entries = given.map((entry, i) => this.#checked(entry, i));
    if (this.entries.filter(({ variables }) => variables === undefined).length > 1)
      throw invalid(`${this.name} has two optimizers without variables`, {
        hint: 'Say which variables each is for; one at most is for all others.',
      });
  }

  #checked(given: OrNull<OptimizerEntry>, index: number): OptimizerEntry {
    const what = `Optimizer ${index + 1} of ${this.name}`;
    if (!(given?.use instanceof Optimizer) || given.use instanceof CombinedOptimizer)
      throw invalid(`${what} has no optimizer as \`use\``, { hint: EXAMPLE });
    const entry = knownOptions<OptimizerEntry>(given, ENTRY, what);
    const { variables } = entry;
    if (variables === undefined || variables instanceof RegExp || Array.isArray(variables)) return entry;
    throw invalid(`The variables of optimizer ${index + 1} of ${this.name} are not a pattern or a list`, {
      hint: EXAMPLE,
    });
  }

  override computeGradients(
    loss: Output,
    options: OrNull<ComputeGradientsOptions> = {},
  ): GradientAndVariable[] {
    const pairs = super.computeGradients(loss, options);
    const variables = this.#checkOwners(pairs);
    for (const [i, entry] of this.entries.entries()) {
      if (entry.variables === undefined || variables.some((variable) => isFor(entry, variable))) continue;
      throw invalid(`Optimizer ${i + 1} of ${this.name}, ${describe(entry)}, is for no variable`, {
        hint: `The variables to train are ${listed(variables)}.`,
      });
    }
    return pairs;
  }

  override applyGradients(
    pairs: readonly GradientAndVariable[],
    options: OrNull<ApplyGradientsOptions> = {},
  ): Operation {
    this.#checkOwners(pairs);
    return super.applyGradients(pairs, options);
  }

  /** Each variable has one optimizer; returns those that can be trained. */
  #checkOwners(pairs: readonly GradientAndVariable[]): readonly Variable[] {
    const variables = pairs.map(([, variable]) => variable).filter(({ dtype }) => isFloating(dtype));
    const named = (variable: Variable) =>
      this.entries.filter((entry) => entry.variables !== undefined && isFor(entry, variable));
    const twice = variables.filter((variable) => named(variable).length > 1);
    if (twice.length > 0)
      throw invalid(`${this.name} has several optimizers for ${listed(twice)}`, {
        hint: `They match ${named(twice[0] as Variable)
          .map(describe)
          .join(' and ')}.`,
      });
    if (this.#others !== undefined) return variables;
    const none = variables.filter((variable) => named(variable).length === 0);
    if (none.length === 0) return variables;
    throw invalid(`${this.name} has no optimizer for ${listed(none)}`, {
      hint: 'Add one without `variables`, which is for all others, or pass varList.',
    });
  }

  /** The entry for the variables that no other names. */
  get #others(): OptimizerEntry | undefined {
    return this.entries.find(({ variables }) => variables === undefined);
  }

  protected override ownerOf(variable: Variable): Optimizer {
    const own = this.entries.find((entry) => entry.variables !== undefined && isFor(entry, variable));
    const entry = own ?? this.#others;
    if (entry === undefined) throw invalid(`${this.name} has no optimizer for '${variable.name}'`);
    return entry.use;
  }

  get members(): readonly Optimizer[] {
    return [...new Set(this.entries.map(({ use }) => use))];
  }

  override getSlot(variable: Variable, slot: string): Variable | undefined {
    return this.ownerOf(variable).getSlot(variable, slot);
  }

  override get slotNames(): string[] {
    return [...new Set(this.members.flatMap((member) => member.slotNames))].sort();
  }

  override variables(graph?: Graph): Variable[] {
    const all = this.members.flatMap((member) => member.variables(graph));
    return all.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** The owner of a variable updates it. */
  protected applyDense(): never {
    throw invalid(`${this.name} updates nothing itself`);
  }

  protected applySparse(): never {
    return this.applyDense();
  }
}

const fullName = (variable: Variable): string => variable.sliceInfo?.fullName ?? variable.name;

function isFor({ variables }: OptimizerEntry, variable: Variable): boolean {
  // Unlike `test`, a search does not depend on what a pattern with the flag `g` was used for before.
  if (variables instanceof RegExp) return fullName(variable).search(variables) >= 0;
  return (
    variables?.some((one) =>
      one instanceof PartitionedVariable ? one.parts.includes(variable) : one === variable,
    ) ?? false
  );
}

function describe({ variables }: OptimizerEntry): string {
  if (variables instanceof RegExp) return String(variables);
  return `[${variables?.map(({ name }) => name).join(', ')}]`;
}

const listed = (variables: readonly Variable[]): string =>
  [...new Set(variables.map(fullName))].map((name) => `'${name}'`).join(', ');
