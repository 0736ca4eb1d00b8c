/** Rejects misspelled options of layers and of a model's methods, for example Keras' own `batch_size`. */
import { checkNames, type Names } from '../../base/errors/option-names.js';
import { LAYER_OPTIONS } from '../../tensorflow/layers/known-options.js';
import type { CompileOptions } from './compile.js';
import type { FitOptions } from './fit.js';
import type { NamedLayer } from './layers.js';
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

const NAMED: Names<NamedLayer> = { name: true };
/** The layers with more options, by kind. */
const LAYERS: Readonly<Record<string, object>> = {
  dense: LAYER_OPTIONS.dense,
  conv2d: LAYER_OPTIONS.conv2d,
  max_pooling2d: LAYER_OPTIONS.maxPooling2d,
  average_pooling2d: LAYER_OPTIONS.averagePooling2d,
  dropout: LAYER_OPTIONS.dropout,
  embedding: LAYER_OPTIONS.embedding,
  batch_normalization: LAYER_OPTIONS.batchNorm,
  layer_normalization: LAYER_OPTIONS.layerNorm,
};
/** What the model decides, and the rate of dropout, which is an argument. */
const NOT_OPTIONS = ['reuse', 'training', 'rate'];

export function checkLayer(kind: string, options: object): void {
  const names = Object.entries(LAYERS[kind] ?? NAMED).filter(([name]) => !NOT_OPTIONS.includes(name));
  checkNames(options, Object.fromEntries(names), (name) => `Layer ${kind} has an unknown option '${name}'`);
}
