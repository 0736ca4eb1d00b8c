/** The names that TensorFlow and its server expect in SavedModels. */

export const tags = {
  serving: 'serve',
  training: 'train',
  evaluation: 'eval',
  gpu: 'gpu',
  tpu: 'tpu',
} as const;

export const signatureConstants = {
  defaultServingSignatureDefKey: 'serving_default',
  classifyInputs: 'inputs',
  classifyMethodName: 'tensorflow/serving/classify',
  classifyOutputClasses: 'classes',
  classifyOutputScores: 'scores',
  predictInputs: 'inputs',
  predictMethodName: 'tensorflow/serving/predict',
  predictOutputs: 'outputs',
  regressInputs: 'inputs',
  regressMethodName: 'tensorflow/serving/regress',
  regressOutputs: 'outputs',
} as const;

export const INIT_OP_SIGNATURE = '__saved_model_init_op';
/** Signatures that name ops for the loader instead of something to call. */
export const RESERVED_SIGNATURES: ReadonlySet<string> = new Set([
  INIT_OP_SIGNATURE,
  '__saved_model_train_op',
]);

export const MAIN_OP_KEY = 'saved_model_main_op';
export const LEGACY_INIT_OP_KEY = 'legacy_init_op';
export const ASSETS_KEY = 'saved_model_assets';

export const SAVED_MODEL_FILE = 'saved_model.pb';
export const SAVED_MODEL_TEXT_FILE = 'saved_model.pbtxt';
export const VARIABLES_DIRECTORY = 'variables';
export const VARIABLES_PREFIX = 'variables';
export const ASSETS_DIRECTORY = 'assets';
/** Files that no loader reads. */
export const EXTRA_DIRECTORY = 'assets.extra';
export const SCHEMA_VERSION = 1n;
