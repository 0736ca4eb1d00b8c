/** Random ops: no gradient flows through them. */
import type { GradientTable } from '../gradient-function.js';

const DRAWS = [
  'Multinomial',
  'ParameterizedTruncatedNormal',
  'RandomPoisson',
  'RandomPoissonV2',
  'RandomStandardNormal',
  'RandomUniform',
  'RandomUniformInt',
  'StatefulStandardNormalV2',
  'StatefulTruncatedNormal',
  'StatefulUniform',
  'StatelessMultinomial',
  'StatelessRandomNormal',
  'StatelessRandomNormalV2',
  'StatelessRandomUniform',
  'StatelessRandomUniformInt',
  'StatelessRandomUniformIntV2',
  'StatelessRandomUniformV2',
  'StatelessTruncatedNormal',
  'StatelessTruncatedNormalV2',
  'TruncatedNormal',
] as const;

export const randomGradients: GradientTable = Object.fromEntries(DRAWS.map((type) => [type, null]));
