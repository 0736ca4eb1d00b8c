/** Rejects misspelled options of a model's methods, for example Keras' own `batch_size`: they would be ignored. */
import { checkNames, type Names } from '../job/known-options.js';
import type { CompileOptions } from './compile.js';
import type { FitOptions } from './fit.js';
import type { BatchOptions } from './model.js';

const BATCH: Names<BatchOptions> = { batchSize: true, signal: true };
const KNOWN: {
  readonly compile: Names<CompileOptions>;
  readonly fit: Names<FitOptions>;
  readonly evaluate: Names<BatchOptions>;
  readonly predict: Names<BatchOptions>;
} = {
  compile: { optimizer: true, loss: true, metrics: true },
  fit: {
    epochs: true,
    batchSize: true,
    shuffle: true,
    seed: true,
    validationData: true,
    callbacks: true,
    verbose: true,
    output: true,
    signal: true,
  },
  evaluate: BATCH,
  predict: BATCH,
};

export function checkOptions(method: keyof typeof KNOWN, options: object): void {
  checkNames(options, KNOWN[method], (name) => `${method} has an unknown option '${name}'`);
}
