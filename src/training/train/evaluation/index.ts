/** Evaluation during training: in the training process, or in a separate one. */
export {
  type BestCheckpoint,
  BestCheckpoints,
  type BestCheckpointsOptions,
  type BestPolicy,
} from './best-checkpoints.js';
export { type Evaluation, evaluate, type Results, type StreamingMetric } from './evaluate.js';
export { EvaluationHook, type EvaluationHookOptions } from './evaluation-hook.js';
export { type EvaluatorOptions, type EvaluatorOutcome, evaluateRepeatedly } from './evaluator.js';
