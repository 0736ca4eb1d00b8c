/**
 * Layers and symbolic tensors: the structure of a model before it has a graph. A layer builds its ops in each graph
 * that the model is built in; a layer that is applied twice shares its variables, also between models.
 */

import { invalid } from '../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import type { Output } from '../../tensorflow/graph/operation.js';
import { graphFor } from '../../tensorflow/layers/graph-for.js';
import type { Regularizer } from '../../tensorflow/layers/regularizers.js';
import { weight } from '../../tensorflow/layers/weights.js';
import { asOutput, type Operand } from '../../tensorflow/ops/build.js';
import type { DType } from '../../tensorflow/tensor/dtype.js';
import type { PartialShape, Shape } from '../../tensorflow/tensor/shape.js';
import type { TensorLike } from '../../tensorflow/tensor/tensor.js';
import type { Initializer } from '../../tensorflow/variables/initializers.js';
import type { Variable } from '../../tensorflow/variables/variable.js';
import { variableScope } from '../../tensorflow/variables/variable-scope.js';
import { LayerWeights } from './layer-weights.js';

export type Mask = Output | undefined;

/** What a layer has built: its outputs, and which steps of each contain data. */
export interface Built {
  readonly outputs: readonly Output[];
  readonly masks: readonly Mask[];
}

export interface LayerCall {
  /** The name of the layer in its model, which is also that of its variable scope. */
  readonly name: string;
  /** Whether the graph trains: false for evaluation, prediction and export. */
  readonly training: boolean;
  /** Which steps of each input contain data, [batch, steps]; undefined: all. */
  readonly masks: readonly Mask[];
  /** Builds another layer, which keeps its own variables, as part of this one. */
  readonly build: (layer: Layer, inputs: readonly Output[], masks?: readonly Mask[], name?: string) => Built;
}

/**
 * Builds the ops of a layer. A model builds its layers several times, for training and for evaluation. The body runs in
 * the variable scope of the layer with automatic reuse: `tf.variable` and `tf.layers` share their variables.
 */
export type LayerBody = (inputs: readonly Output[], call: LayerCall) => Output | Built;

/** How a layer is written in Keras' JSON. */
export interface SavedLayer {
  /** The name of the class in Keras, for example `Dense`. */
  readonly className: string;
  /** The configuration in the names of Shoal. */
  readonly config: Readonly<Record<string, unknown>>;
  /** How its inputs are given to the layer: as a list, one by one, or the first and then the state. Default: each. */
  readonly arguments?: 'list' | 'each' | 'state';
  /** Options that Keras' layer takes when it is applied. Default: none. */
  readonly whenApplied?: readonly string[];
}

export interface LayerParts {
  /** The kind of the layer and its default name, for example `dense`. */
  readonly kind: string;
  /** Default: the kind, numbered if the model has several. */
  readonly name?: string | undefined;
  readonly body: LayerBody;
  /** Whether the body opens the variable scope of the layer itself. Default: false. @internal */
  readonly opensScope?: boolean;
  /** Whether the masks of the inputs are those of the outputs. Default: false. */
  readonly passesMask?: boolean;
  /** Default: 1. @internal */
  readonly outputCount?: number;
  /** Layers that `body` builds. Default: none. @internal */
  readonly inner?: readonly Layer[];
  /** Default: the layer cannot be written. @internal */
  readonly saved?: SavedLayer | undefined;
}

export interface LayerSettings {
  /** The name of the layer and of its variables; default: the kind of the layer, numbered. */
  readonly name?: string;
}

export interface AddWeightOptions {
  readonly shape: Shape;
  /** Default: float32. */
  readonly dtype?: DType;
  /** The initializer or the initial value; default: Glorot uniform. */
  readonly initializer?: Initializer | TensorLike;
  /** The penalty on the weight; default: none. */
  readonly regularizer?: Regularizer;
  /** Whether optimizers update it. Default: true. */
  readonly trainable?: boolean;
}

/**
 * A layer. Subclasses define `call`, and `build` if they have weights; both run whenever a model is built, and `build` may
 * set fields that `call` reads.
 */
export class Layer {
  readonly kind: string;
  /** Undefined if the model names it. */
  readonly name: string | undefined;
  /** @internal */
  readonly weights = new LayerWeights();
  /** @internal */
  readonly saved: SavedLayer | undefined;
  /** The number of tensors that `apply` returns in a list; 1: one, not in a list. @internal */
  readonly outputCount: number;
  /** Layers inside this one. @internal */
  readonly inner: readonly Layer[];
  readonly #parts: LayerParts | undefined;

  constructor(given: OrNull<LayerParts> | OrNull<LayerSettings> = {}) {
    const parts =
      'body' in given && given.body ? (withoutNull(given as OrNull<LayerParts>) as LayerParts) : undefined;
    this.#parts = parts;
    this.kind = parts?.kind ?? snakeCase(new.target.name);
    this.name = given.name ?? undefined;
    this.saved = parts?.saved;
    this.outputCount = parts?.outputCount ?? 1;
    this.inner = parts?.inner ?? [];
  }

  /** Creates the weights, for inputs of these shapes. */
  build(_shape: PartialShape | readonly PartialShape[]): void {}

  /** The result for one input, or for a list of several. */
  call(_inputs: never, _call: LayerCall): Operand {
    throw invalid(`Layer ${this.name ?? this.kind} has no call function`, {
      hint: 'A subclass of tf.keras.Layer defines call(x, { training, masks }), and build(shape) for its weights.',
    });
  }

  /** The options of a subclass, as its constructor takes them, for `model.toJson`. */
  getConfig(): Readonly<Record<string, unknown>> {
    return {};
  }

  /** Whether the masks of the inputs are those of the outputs. */
  get supportsMasking(): boolean {
    return this.#parts?.passesMask ?? false;
  }

  /** A weight of the layer, for `build`. */
  addWeight(name: string, options: AddWeightOptions): Variable {
    return weight(name, { dtype: 'float32', ...options }) as Variable;
  }

  /** Connects the layer to the outputs of others, for a functional model. */
  apply(inputs: SymbolicTensor | readonly SymbolicTensor[]): SymbolicTensor {
    return this.applyAll(inputs)[0] as SymbolicTensor;
  }

  /** The same for a layer with several outputs: an LSTM with `returnState`, or a model. */
  applyAll(inputs: SymbolicTensor | readonly SymbolicTensor[]): readonly SymbolicTensor[] {
    const sources = inputs instanceof SymbolicTensor ? [inputs] : inputs;
    if (sources.length === 0) throw invalid(`Layer ${this.name ?? this.kind} has no input`);
    const wrong = sources.findIndex((source) => !(source instanceof SymbolicTensor));
    if (wrong >= 0)
      throw invalid(`Layer ${this.name ?? this.kind} is applied to what no layer returned (input ${wrong})`, {
        hint: "Apply it to what tf.keras.Input or a layer's apply returns.",
      });
    const application: Application = { layer: this, sources };
    return Array.from({ length: this.outputCount }, (_, index) => new SymbolicTensor({ application, index }));
  }

  /** @internal */
  connect(inputs: readonly Output[], call: LayerCall): Built {
    const body = (): Built => {
      const made = this.#parts ? this.#parts.body(inputs, call) : this.#callSubclass(inputs, call);
      if ('outputs' in made) return made;
      const output = asOutput(made);
      const mask = this.supportsMasking ? call.masks.find((one) => one !== undefined) : undefined;
      return { outputs: [output], masks: [mask] };
    };
    if (this.#parts?.opensScope) return body();
    return graphFor(inputs[0] as Output).asDefault(() => variableScope(call.name, body, { reuse: 'auto' }));
  }

  #callSubclass(inputs: readonly Output[], call: LayerCall): Output {
    const shapes = inputs.map(({ shape }) => shape);
    this.build(shapes.length === 1 ? (shapes[0] as PartialShape) : shapes);
    return asOutput(this.call((inputs.length === 1 ? inputs[0] : inputs) as never, call));
  }
}

/** As Keras names its layers: `conv2d_transpose` of `Conv2DTranspose`. */
export const snakeCase = (name: string): string =>
  name
    .replace(/(.)([A-Z][a-z]+)/g, '$1_$2')
    .replace(/([a-z])([A-Z])/g, '$1_$2')
    .toLowerCase();

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

/** One application of a layer to what others return. */
export interface Application {
  readonly layer: Layer;
  readonly sources: readonly SymbolicTensor[];
}

/** An input, or a result of an application. */
export type SymbolicParts =
  | { readonly input: InputSpec }
  | { readonly application: Application; readonly index: number };

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
