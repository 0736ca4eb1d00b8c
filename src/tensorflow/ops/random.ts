/** Random tensors. Seeds follow TensorFlow: a graph seed, an op seed, or both; without seeds results are random. */
import { type OrNull, withoutNull } from '../../base/errors/null-options.js';
import { currentGraph, type OpOptions } from '../graph/graph.js';
import type { Output } from '../graph/operation.js';
import { type DType, isInteger } from '../tensor/dtype.js';
import type { Shape } from '../tensor/shape.js';
import { asOutput, type Operand } from './build.js';
import { asShape } from './creation.js';
import * as raw from './generated/index.js';
import { keywords } from './keywords.js';
import { add, mul } from './math.js';

/** TensorFlow's graph seed if only an op seed is set. */
const DEFAULT_GRAPH_SEED = 87654321;

export interface RandomOptions<D extends DType = DType> extends OpOptions {
  /** The dtype; default: 'float32'. */
  readonly dtype?: D | null;
  /** The seed of the op; default: derived from the graph's seed if that is set, else random. */
  readonly seed?: number | null;
}

/** The pair of seeds for an op. */
export function opSeeds(seed: number | null | undefined): { seed: number; seed2: number } {
  const graph = currentGraph();
  if (graph.seed !== null) {
    const pair = { seed: graph.seed, seed2: seed ?? graph.opCount };
    // (0, 0) would mean "no seed".
    return pair.seed === 0 && pair.seed2 === 0 ? { seed: 0, seed2: 2 ** 31 - 1 } : pair;
  }
  return seed === undefined || seed === null
    ? { seed: 0, seed2: 0 }
    : { seed: DEFAULT_GRAPH_SEED, seed2: seed };
}

/** Sets the seed of the current graph. */
export function setRandomSeed(seed: number): void {
  currentGraph().seed = seed;
}

export const randomUniform = keywords<
  RandomOptions & Record<'low' | 'minval' | 'high' | 'maxval', number | bigint>
>()(
  1,
  [
    ['low', 'minval'],
    ['high', 'maxval'],
  ],
  uniform,
);

function uniform<D extends DType = 'float32'>(
  shape: Shape | Operand,
  low: number | bigint = 0,
  high: number | bigint = 1,
  { dtype: given, seed, ...rest }: RandomOptions<D> = {},
): Output<D> {
  const dtype = given ?? ('float32' as D);
  if (isInteger(dtype)) {
    return raw.randomUniformInt(asShape(shape), asOutput(low, dtype), asOutput(high, dtype), {
      ...opSeeds(seed),
      ...rest,
    }) as Output<D>;
  }
  const unit = raw.randomUniform(asShape(shape), { dtype, ...opSeeds(seed), ...rest });
  if (low === 0 && high === 1) return unit as Output<D>;
  return add(mul(unit, Number(high) - Number(low)), Number(low)) as Output<D>;
}

/** Draws from a distribution with mean 0 and standard deviation 1, then scales and shifts. */
const normal =
  (draw: typeof raw.randomStandardNormal) =>
  <D extends DType = 'float32'>(
    shape: Shape | Operand,
    mean = 0,
    stddev = 1,
    { dtype, seed, ...rest }: RandomOptions<D> = {},
  ): Output<D> => {
    const drawn = draw(asShape(shape), { dtype: dtype ?? 'float32', ...opSeeds(seed), ...rest });
    return add(mul(drawn, stddev), mean) as Output<D>;
  };

type NormalKeywords = RandomOptions & Record<'mean' | 'stddev', number>;

export const randomNormal = keywords<NormalKeywords>()(
  1,
  ['mean', 'stddev'],
  normal(raw.randomStandardNormal),
);
/** Normal, with values beyond two standard deviations redrawn. */
export const truncatedNormal = keywords<NormalKeywords>()(1, ['mean', 'stddev'], normal(raw.truncatedNormal));

/** Shuffles the rows. */
export function randomShuffle(x: Operand, options: OrNull<RandomOptions> = {}): Output {
  const { seed, ...rest } = withoutNull<RandomOptions>(options);
  return raw.randomShuffle(x, { ...opSeeds(seed), ...rest });
}
