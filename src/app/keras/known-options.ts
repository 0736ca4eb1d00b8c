/** Rejects misspelled options of layers and of a model's methods, for example Keras' own `batch_size`. */
import { checkNames, type Names } from '../../base/errors/option-names.js';
import type { BatchOptions, ModelEvaluateOptions } from './model.js';
import type { CompileOptions } from './training/compile.js';
import type { FitOptions } from './training/fit.js';

const BATCH: Names<BatchOptions> = { batchSize: true, signal: true };
const KNOWN: {
  readonly compile: Names<CompileOptions>;
  readonly fit: Names<FitOptions>;
  readonly evaluate: Names<ModelEvaluateOptions>;
  readonly predict: Names<BatchOptions>;
} = {
  compile: { optimizer: true, loss: true, metrics: true, lossWeights: true, weightedMetrics: true },
  fit: {
    epochs: true,
    initialEpoch: true,
    stepsPerEpoch: true,
    sampleWeight: true,
    classWeight: true,
    validationSplit: true,
    validationSteps: true,
    batchSize: true,
    shuffle: true,
    seed: true,
    validationData: true,
    callbacks: true,
    verbose: true,
    output: true,
    signal: true,
  },
  evaluate: { ...BATCH, sampleWeight: true, steps: true },
  predict: BATCH,
};

export function checkOptions(method: keyof typeof KNOWN, options: object): void {
  checkNames(options, KNOWN[method], (name) => `${method} has an unknown option '${name}'`);
}
