/** All cases. */
import type { OpCase } from '../case.js';
import { arrays } from './arrays.js';
import { elementwise } from './elementwise.js';
import { linalg } from './linalg.js';
import { nn } from './nn.js';
import { reductions } from './reductions.js';
import { strings } from './strings.js';

export const CASES: readonly OpCase[] = [
  ...elementwise,
  ...reductions,
  ...arrays,
  ...linalg,
  ...nn,
  ...strings,
];
