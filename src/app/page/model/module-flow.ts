/**
 * How tensors flow between the modules and ops of a scope. A tensor that goes from one module to another one belongs to
 * the innermost scope that contains both.
 */
import { formatShape } from '../../../tensorflow/tensor/shape.js';
import type { ModelUnit } from '../state.js';
import type { ModelNode, PageGraph, TensorRef } from './model-graph.js';
import type { ModulePaths } from './module-paths.js';

export interface ScopeFlow {
  readonly units: readonly ModelUnit[];
  readonly edges: readonly (readonly [number, number])[];
}

const MOST_UNITS = 40;
const MOST_EDGES = 150;

interface Unit extends Omit<ModelUnit, 'shape'> {
  /** The first tensor that leaves it, and the output of an op that receives one. */
  leaving?: TensorRef;
  receiving?: TensorRef;
}

class Scope {
  readonly units = new Map<string, Unit>();
  readonly edges = new Map<string, readonly [string, string]>();
}

export class ModuleFlow {
  readonly #paths: ModulePaths;
  readonly #model: PageGraph;
  readonly #scopes = new Map<string, Scope>();
  readonly #types = new Map<string, string>();

  constructor(model: PageGraph, paths: ModulePaths, forward: ReadonlySet<string>) {
    this.#model = model;
    this.#paths = paths;
    const shown = model.nodes.filter(({ name, type }) => forward.has(name) && type !== 'Const');
    for (const { name, type } of shown) this.#types.set(name, type);
    for (const node of shown) for (const input of node.inputs) this.#connect(input, node);
  }

  #connect(tensor: TensorRef, to: ModelNode): void {
    if (!this.#types.has(tensor.op)) return;
    const [from, into] = [this.#paths.of(tensor.op), this.#paths.of(to.name)];
    const [{ chain }, { chain: other }] = [from, into];
    let depth = 0;
    while (depth + 1 < chain.length && chain[depth + 1] === other[depth + 1]) depth += 1;
    const path = chain[depth]!;
    const scope = this.#scopes.get(path) ?? new Scope();
    this.#scopes.set(path, scope);
    const source = this.#unit(scope, chain[depth + 1], tensor.op, from.variable);
    const target = this.#unit(scope, other[depth + 1], to.name, into.variable);
    if (source === target) return;
    source.leaving ??= tensor;
    target.receiving ??= { op: to.name, index: 0 };
    scope.edges.set(`${source.name}>${target.name}`, [source.name, target.name]);
  }

  #unit(scope: Scope, module: string | undefined, op: string, variable: string | undefined): Unit {
    const name = module ?? variable ?? op;
    const known = scope.units.get(name);
    if (known) return known;
    const kind = module !== undefined ? 'module' : variable !== undefined ? 'variable' : 'op';
    const made: Unit = { name, kind, text: kind === 'op' ? this.#types.get(op)! : '' };
    scope.units.set(name, made);
    return made;
  }

  /** What is in a scope; of very many units the first ones, and one for the rest. */
  of(path: string): ScopeFlow {
    const scope = this.#scopes.get(path);
    if (!scope) return { units: [], edges: [] };
    const all = [...scope.units.values()].map((unit) => this.#described(unit));
    const shown = all.length <= MOST_UNITS ? all : all.slice(0, MOST_UNITS - 1);
    const index = new Map(shown.map(({ name }, i) => [name, i]));
    const rest = all.length - shown.length;
    const units =
      rest === 0 ? shown : [...shown, { name: '', kind: 'rest' as const, text: String(rest), shape: '' }];
    const edges = new Map<string, readonly [number, number]>();
    for (const [from, to] of scope.edges.values()) {
      const edge = [index.get(from) ?? shown.length, index.get(to) ?? shown.length] as const;
      if (edge[0] !== edge[1] && edges.size < MOST_EDGES) edges.set(edge.join(), edge);
    }
    return { units, edges: [...edges.values()] };
  }

  #described({ name, kind, text, leaving, receiving }: Unit): ModelUnit {
    const tensor = leaving ?? receiving;
    const shape = tensor === undefined ? null : this.#model.shapeOf(tensor);
    return { name, kind, text, shape: shape === null ? '' : formatShape(shape) };
  }
}
