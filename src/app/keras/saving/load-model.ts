/** Loads a saved model to train it further. */
import type { SymbolicTensor } from '../layer.js';
import type { Model } from '../model.js';
import type { CompileOptions } from '../training/compile.js';
import { type FromJsonOptions, modelFromJson } from './from-json.js';
import { readTraining } from './saved-training.js';

export interface LoadModelOptions extends FromJsonOptions {
  /** How the model is trained further; default: as it was compiled, if that was by names. */
  readonly compile?: CompileOptions;
}

/** A model that `model.save` wrote, with its weights and the state of its optimizer. */
export async function loadModel(
  directory: string,
  { compile, ...options }: LoadModelOptions = {},
): Promise<Model<SymbolicTensor | readonly SymbolicTensor[]>> {
  const saved = await readTraining(directory);
  const model = modelFromJson(saved.architecture, options);
  const plan = compile ?? saved.compile;
  if (plan) model.compile(plan);
  try {
    await model.restoreTraining(saved.checkpoint);
  } catch (error) {
    await model.close();
    throw error;
  }
  return model;
}
