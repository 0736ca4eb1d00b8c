/** The names of TensorFlow's standard graph collections. */
export const GraphKeys = {
  globalVariables: 'variables',
  trainableVariables: 'trainable_variables',
  /** The variables of feature columns, as in TensorFlow. */
  modelVariables: 'model_variables',
  localVariables: 'local_variables',
  metricVariables: 'metric_variables',
  movingAverageVariables: 'moving_average_variables',
  globalStep: 'global_step',
  losses: 'losses',
  regularizationLosses: 'regularization_losses',
  summaries: 'summaries',
  updateOps: 'update_ops',
  tableInitializers: 'table_initializer',
  /** Constants with paths of files that the graph reads; exports include the files. */
  assetFilepaths: 'asset_filepaths',
  queueRunners: 'queue_runners',
  trainOp: 'train_op',
  initOp: 'init_op',
  readyOp: 'ready_op',
  localInitOp: 'local_init_op',
  savers: 'savers',
  /** Checkpoints from `initFromCheckpoint`, which initialize variables. */
  warmStarts: 'shoal_warm_starts',
  /** Ops that run before lost variables are restored; they drop state of the lost steps. */
  resetOps: 'reset_ops',
  /** The step that each device is at in deterministic synchronous training, and whether it is known. */
  stepCounters: 'step_counters',
  stepCountersSet: 'step_counters_set',
} as const;
