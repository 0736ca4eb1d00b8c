/**
 * The weights of a layer belong to the layer: all models with the layer share them. Every model has a session of its own,
 * with a copy of the weights. The current values are in the copy that was changed last; before a model uses its copies,
 * it replaces those that are older.
 */
import { invalid } from '../../base/errors/errors.js';
import type { DType } from '../../tensorflow/tensor/dtype.js';
import { formatShape, type PartialShape } from '../../tensorflow/tensor/shape.js';
import type { Tensor } from '../../tensorflow/tensor/tensor.js';
import type { Variable } from '../../tensorflow/variables/variable.js';

type Values = readonly Tensor[];
type Types = readonly { readonly dtype: DType; readonly shape: PartialShape }[];

/** What a layer knows about its weights. */
export class LayerWeights {
  #models = 0;
  #version = 0;
  /** Undefined while no model has values. */
  #current: { readonly types: Types; readonly read: () => Promise<Values> } | undefined;
  /** Ends when the uses of the weights that were requested so far have ended. */
  #last: Promise<unknown> = Promise.resolve();

  /** Another model contains the layer. */
  addModel(): void {
    this.#models += 1;
  }

  get isShared(): boolean {
    return this.#models > 1;
  }

  /** Changes with every change of the values. */
  get version(): number {
    return this.#version;
  }

  /** The types of the current values. */
  get types(): Types | undefined {
    return this.#current?.types;
  }

  read(): Promise<Values> {
    return this.#current?.read() ?? Promise.resolve([]);
  }

  /** The values have changed; `read` returns them. Returns the version. */
  changed(types: Types, read: () => Promise<Values>): number {
    this.#current = { types, read };
    this.#version += 1;
    return this.#version;
  }

  /** The values are gone: the next model begins with initial ones. */
  forget(): void {
    this.#current = undefined;
  }

  /** Runs `work` when no other work on one of these weights is under way. */
  static exclusive<T>(all: readonly LayerWeights[], work: () => Promise<T>): Promise<T> {
    const result = Promise.all(all.map((one) => one.#last)).then(work);
    const end = result.catch(() => undefined);
    for (const one of all) one.#last = end;
    return result;
  }
}

/** A layer in a model: its variables in the session of the model. */
export interface LayerVariables {
  readonly name: string;
  readonly weights: LayerWeights;
  readonly variables: readonly Variable[];
}

interface Copy extends LayerVariables {
  version: number;
}

/** Reads and writes variables of a session. */
export interface WeightAccess {
  read(variables: readonly Variable[]): Promise<Values>;
  write(values: readonly (readonly [Variable, Tensor])[]): Promise<void>;
}

/** The copies of a model. */
export class WeightCopies {
  readonly #copies: readonly Copy[];
  readonly #all: readonly LayerWeights[];
  readonly #access: WeightAccess;

  /** The variables have their initial values, which become those of layers that have none. */
  constructor(layers: readonly LayerVariables[], access: WeightAccess) {
    const own = layers.filter(({ variables }) => variables.length > 0);
    for (const layer of own) checkTypes(layer);
    this.#access = access;
    this.#copies = own.map((layer) => ({ ...layer, version: -1 }));
    this.#all = own.map(({ weights }) => weights);
    for (const copy of this.#copies) if (!copy.weights.types) this.#mark(copy);
  }

  /** Replaces copies that are older than those of other models. */
  async refresh(): Promise<void> {
    if (this.#outdated().length > 0) await LayerWeights.exclusive(this.#all, () => this.#refresh());
  }

  /** Runs `work`, which changes the variables. */
  change<T>(work: () => Promise<T>): Promise<T> {
    return LayerWeights.exclusive(this.#all, async () => {
      await this.#refresh();
      try {
        return await work();
      } finally {
        // A step that failed may have changed some of them.
        for (const copy of this.#copies) this.#mark(copy);
      }
    });
  }

  /** The session is about to end: the layers of other models keep the values that only this model has. */
  release(): Promise<void> {
    return LayerWeights.exclusive(this.#all, async () => {
      for (const { weights, version, variables } of this.#copies) {
        if (version !== weights.version) continue;
        const values = weights.isShared ? await this.#access.read(variables) : undefined;
        if (values) weights.changed(variables, () => Promise.resolve(values));
        else weights.forget();
      }
    });
  }

  #outdated(): readonly Copy[] {
    return this.#copies.filter(({ version, weights }) => version !== weights.version);
  }

  async #refresh(): Promise<void> {
    const pairs: (readonly [Variable, Tensor])[] = [];
    const outdated = this.#outdated();
    for (const { weights, variables } of outdated) {
      const values = await weights.read();
      pairs.push(...variables.map((variable, i) => [variable, values[i] as Tensor] as const));
    }
    if (pairs.length > 0) await this.#access.write(pairs);
    for (const copy of outdated) copy.version = copy.weights.version;
  }

  #mark(copy: Copy): void {
    const { weights, variables } = copy;
    copy.version = weights.changed(variables, () => this.#access.read(variables));
  }
}

function checkTypes({ name, weights, variables }: LayerVariables): void {
  if (!weights.types) return;
  const [here, there] = [describe(variables), describe(weights.types)];
  if (here === there) return;
  throw invalid(`Layer ${name} has the weights ${there} in another model, here it would have ${here}`, {
    hint: 'Models that share a layer apply it to inputs of the same shape and dtype. Use a layer of its own for others.',
  });
}

const describe = (types: Types): string =>
  types.map(({ dtype, shape }) => `${dtype} ${formatShape(shape)}`).join(', ');
