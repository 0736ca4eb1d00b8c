/** Initializers and regularizers by name, or by the name and configuration of their class in Keras. */
import { invalid } from '../../../base/errors/errors.js';
import { l1, l1l2, l2, type Regularizer } from '../../../tensorflow/layers/regularizers.js';
import { Tensor, type TensorLike } from '../../../tensorflow/tensor/tensor.js';
import type { Initializer, Seeded } from '../../../tensorflow/variables/initializers.js';
import * as make from '../../../tensorflow/variables/initializers.js';
import { requireNamed } from '../names.js';

/** A class of Keras with its configuration, as in its JSON. */
export interface ClassConfig {
  readonly className: string;
  readonly config: Readonly<Record<string, unknown>>;
}

type Config = Seeded & Readonly<Record<string, number>>;

const scaled =
  (scale: number, mode: 'fanIn' | 'fanAvg', distribution: 'uniform' | 'truncatedNormal') =>
  ({ seed }: Config): Initializer =>
    make.varianceScaling({ scale, mode, distribution, ...(seed != null && { seed }) });

const INITIALIZERS = {
  zeros: () => make.zerosInitializer(),
  ones: () => make.onesInitializer(),
  constant: ({ value = 0 }: Config) => make.constantInitializer(value),
  randomUniform: ({ minval = -0.05, maxval = 0.05, seed }: Config) =>
    make.randomUniformInitializer(minval, maxval, { seed: seed ?? null }),
  randomNormal: ({ mean = 0, stddev = 0.05, seed }: Config) =>
    make.randomNormalInitializer(mean, stddev, { seed: seed ?? null }),
  truncatedNormal: ({ mean = 0, stddev = 0.05, seed }: Config) =>
    make.truncatedNormalInitializer(mean, stddev, { seed: seed ?? null }),
  glorotUniform: scaled(1, 'fanAvg', 'uniform'),
  glorotNormal: scaled(1, 'fanAvg', 'truncatedNormal'),
  heUniform: scaled(2, 'fanIn', 'uniform'),
  heNormal: scaled(2, 'fanIn', 'truncatedNormal'),
  lecunUniform: scaled(1, 'fanIn', 'uniform'),
  lecunNormal: scaled(1, 'fanIn', 'truncatedNormal'),
  orthogonal: ({ gain = 1, seed }: Config) => make.orthogonal({ gain, seed: seed ?? null }),
} satisfies Record<string, (config: Config) => Initializer>;

const REGULARIZERS = {
  l1: ({ l1: scale = 0.01 }: Config) => l1(scale),
  l2: ({ l2: scale = 0.01 }: Config) => l2(scale),
  l1l2: ({ l1: absolute = 0, l2: squared = 0 }: Config) => l1l2({ l1: absolute, l2: squared }),
} satisfies Record<string, (config: Config) => Regularizer>;

export type InitializerName = keyof typeof INITIALIZERS;
export type RegularizerName = keyof typeof REGULARIZERS;

const isClassConfig = (given: unknown): given is ClassConfig =>
  typeof given === 'object' && given !== null && 'className' in given;

export function initializerOf(given: unknown): Initializer | TensorLike {
  if (typeof given === 'string') return requireNamed(INITIALIZERS, given, 'initializer')({} as Config);
  if (isClassConfig(given))
    return requireNamed(INITIALIZERS, given.className, 'initializer')(given.config as Config);
  return given as Initializer | TensorLike;
}

export function regularizerOf(given: unknown): Regularizer {
  if (typeof given === 'string') return requireNamed(REGULARIZERS, given, 'regularizer')({} as Config);
  if (isClassConfig(given))
    return requireNamed(REGULARIZERS, given.className, 'regularizer')(given.config as Config);
  if (typeof given === 'function') return given as Regularizer;
  throw invalid(`A regularizer must be a name or a function such as tf.regularizers.l2(0.01)`);
}

/** The class of an initializer in Keras; undefined for a function, whose class is unknown. */
export function initializerClass(given: unknown): ClassConfig | undefined {
  if (isClassConfig(given)) return given;
  if (typeof given === 'string') return { className: given, config: {} };
  const value = given instanceof Tensor && given.rank === 0 ? given.number() : given;
  return typeof value === 'number' ? { className: 'constant', config: { value } } : undefined;
}
