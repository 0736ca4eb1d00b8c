/**
 * Layers and symbolic tensors: the structure of a model before it has a graph. A layer builds its ops in each graph
 * that the model is built in; a layer that is applied twice shares its variables, also between models.
 */

import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import type { Output } from '../../tensorflow/graph/operation.js';
import { graphFor } from '../../tensorflow/layers/graph-for.js';
import type { DType } from '../../tensorflow/tensor/dtype.js';
import { variableScope } from '../../tensorflow/variables/variable-scope.js';
import { LayerWeights } from './layer-weights.js';

export interface LayerCall {
  /** The name of the layer in its model, which is also that of its variable scope. */
  readonly name: string;
  /** Whether the graph trains: false for evaluation, prediction and export. */
  readonly training: boolean;
}

/**
 * Builds the ops of a layer. A model builds its layers several times, for training and for evaluation. The body runs in
 * the variable scope of the layer with automatic reuse: `tf.variable` and `tf.layers` share their variables.
 */
export type LayerBody = (inputs: readonly Output[], call: LayerCall) => Output;

export interface LayerParts {
  /** The kind of the layer and its default name, for example `dense`. */
  readonly kind: string;
  /** Default: the kind, numbered if the model has several. */
  readonly name?: string | undefined;
  readonly body: LayerBody;
  /** Whether the body opens the variable scope of the layer itself. Default: false. @internal */
  readonly opensScope?: boolean;
}

export class Layer {
  readonly kind: string;
  /** Undefined if the model names it. */
  readonly name: string | undefined;
  /** @internal */
  readonly weights = new LayerWeights();
  readonly #body: LayerBody;
  readonly #opensScope: boolean;

  constructor({ kind, name, body, opensScope = false }: LayerParts) {
    this.kind = kind;
    this.name = name;
    this.#body = body;
    this.#opensScope = opensScope;
  }

  /** Connects the layer to the outputs of others, for a functional model. */
  apply(inputs: SymbolicTensor | readonly SymbolicTensor[]): SymbolicTensor {
    const sources = inputs instanceof SymbolicTensor ? [inputs] : inputs;
    if (sources.length === 0) throw invalid(`Layer ${this.name ?? this.kind} has no input`);
    return new SymbolicTensor({ layer: this, sources });
  }

  /** @internal */
  build(inputs: readonly Output[], call: LayerCall): Output {
    const body = () => this.#body(inputs, call);
    if (this.#opensScope) return body();
    return graphFor(inputs[0] as Output).asDefault(() => variableScope(call.name, body, { reuse: 'auto' }));
  }
}

export interface InputOptions {
  /** The shape of one example, without the batch; null for sizes that vary. */
  readonly shape: readonly (number | null)[];
  /** Default: float32. */
  readonly dtype?: DType;
  /** The name of the input in `fit` and in exports; default: `x`. */
  readonly name?: string;
}

export interface InputSpec {
  readonly name: string;
  /** Undefined for a model whose input is known only when it gets data. */
  readonly type: { readonly dtype: DType; readonly shape: readonly (number | null)[] } | undefined;
}

/** What a layer is applied to, and what it returns. */
export type SymbolicParts =
  | { readonly input: InputSpec }
  | { readonly layer: Layer; readonly sources: readonly SymbolicTensor[] };

export class SymbolicTensor {
  /** @internal */
  readonly parts: SymbolicParts;

  /** @internal */
  constructor(parts: SymbolicParts) {
    this.parts = parts;
  }
}

/** An input of a functional model, or of a Sequential model as its first element. */
export function Input(options: OrNull<InputOptions>): SymbolicTensor {
  const { shape, dtype = 'float32', name = 'x' } = withoutNull<InputOptions>(options);
  return new SymbolicTensor({ input: { name, type: { dtype, shape: [null, ...shape] } } });
}
