/** How the layers of `tf.keras.layers` are defined: a class of Keras, its options, and a function of ops. */
import { invalid } from '../../../base/errors/errors.js';
import { type OrNull, withoutNull } from '../../../base/errors/null-options.js';
import { checkNames } from '../../../base/errors/option-names.js';
import type { Output } from '../../../tensorflow/graph/operation.js';
import {
  type Activation,
  type ActivationName,
  activationOf,
} from '../../../tensorflow/layers/activations.js';
import type { Regularizer } from '../../../tensorflow/layers/regularizers.js';
import { asOutput, type Operand } from '../../../tensorflow/ops/build.js';
import type { TensorLike } from '../../../tensorflow/tensor/tensor.js';
import type { Initializer } from '../../../tensorflow/variables/initializers.js';
import { type Built, Layer, type LayerCall, type LayerParts, type SavedLayer, snakeCase } from '../layer.js';
import { type InitializerName, initializerOf, type RegularizerName, regularizerOf } from './named-values.js';

export interface NamedLayer {
  /** The name of the layer and of its variables; default: the kind of the layer, numbered. */
  readonly name?: string;
}

/** What the model decides. */
type Decided = 'name' | 'reuse' | 'training' | 'mask' | 'initialState' | 'device' | 'controlInputs';

/** The options of a layer function, with values by name, and without those that the model decides. */
export type Options<O> = NamedLayer & {
  readonly [K in keyof O as Exclude<K, Decided>]: K extends 'activation' | 'recurrentActivation'
    ? Activation | ActivationName
    : K extends `${string}nitializer`
      ? Initializer | TensorLike | InitializerName
      : K extends `${string}egularizer`
        ? Regularizer | RegularizerName
        : O[K];
};

const DECIDED: readonly Decided[] = ['reuse', 'training', 'mask', 'initialState', 'device', 'controlInputs'];

/** What a body is given: a call with the name of the scope that the function opens. */
export type OwnCall = LayerCall & { readonly reuse: 'auto' };

interface Definition<O extends object> {
  /** The name of the class in Keras. */
  readonly className: string;
  /** Positional arguments, by their names in Keras' configuration. */
  readonly args?: Readonly<Record<string, unknown>>;
  readonly options: OrNull<O>;
  /** The options that exist; default: `name`. */
  readonly known?: object;
  readonly body: (inputs: readonly Output[], call: OwnCall, options: never) => Operand | Built;
  /** How many inputs the layer has: exactly, or at least. Default: 1. */
  readonly inputs?: number | { readonly atLeast: number };
}

type Extra = Pick<LayerParts, 'opensScope' | 'passesMask' | 'outputCount' | 'inner'> & {
  readonly saved?: Partial<SavedLayer> | false;
};

/** A layer of a class. Options are checked where it is created. */
export const define = <O extends object>(definition: Definition<O>, extra: Extra = {}): Layer =>
  new Layer(layerParts(definition, extra));

export function layerParts<O extends object>(definition: Definition<O>, extra: Extra): LayerParts {
  const { className, args = {}, options: given, known = {}, body, inputs: expected = 1 } = definition;
  const kind = snakeCase(className);
  const names = Object.keys({ name: true, ...known }).filter((name) => !DECIDED.includes(name as Decided));
  checkNames(
    given,
    Object.fromEntries(names.map((name) => [name, true])),
    (name) => `Layer ${kind} has an unknown option '${name}'`,
  );
  const { name, ...options } = withoutNull(given) as O & NamedLayer;
  const resolved = resolve(options);
  const { saved = {}, ...others } = extra;
  return {
    kind,
    name,
    ...others,
    ...(saved !== false && { saved: { className, config: { ...args, ...options }, ...saved } }),
    body: (inputs, call) => {
      const least = typeof expected === 'number' ? expected : expected.atLeast;
      if (inputs.length < least || (typeof expected === 'number' && inputs.length > least)) {
        const wanted = `${typeof expected === 'number' ? '' : 'at least '}${least === 1 ? 'one input' : `${least} inputs`}`;
        throw invalid(`Layer ${call.name} has ${wanted}, but is applied to ${inputs.length}`);
      }
      const made = body(inputs, { ...call, reuse: 'auto' }, resolved as never);
      return typeof made === 'object' && made !== null && 'outputs' in made
        ? (made as Built)
        : asOutput(made);
    },
  };
}

/** Options with functions in place of names. Activations are functions too: a wrong name is an error at once. */
function resolve(options: object): object {
  return Object.fromEntries(
    Object.entries(options).map(([name, value]) => {
      if (name.endsWith('nitializer')) return [name, initializerOf(value)];
      if (name.endsWith('egularizer')) return [name, regularizerOf(value)];
      if (/activation$/i.test(name)) return [name, activationOf(value)];
      return [name, value];
    }),
  );
}

/** A layer of a function of `layers/`, with one input; the function opens the scope of its variables. */
export const scoped = <O extends object>(
  className: string,
  args: Readonly<Record<string, unknown>>,
  options: OrNull<Options<O>>,
  known: object,
  build: (x: Output, options: O) => Operand,
  extra: Extra = {},
): Layer =>
  define<Options<O>>(
    {
      className,
      args,
      options,
      known,
      body: ([x], { name, reuse }, own: O) => build(x as Output, { ...own, name, reuse }),
    },
    { opensScope: true, ...extra },
  );

/** A layer without weights, with one input. */
export const plain = (
  className: string,
  args: Readonly<Record<string, unknown>>,
  options: OrNull<NamedLayer>,
  build: (x: Output, call: OwnCall) => Operand | Built,
  extra: Extra = {},
): Layer => define({ className, args, options, body: ([x], call) => build(x as Output, call) }, extra);
