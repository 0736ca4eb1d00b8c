/** The names of TensorFlow's standard graph collections. */
export const GraphKeys = {
  globalVariables: 'variables',
  trainableVariables: 'trainable_variables',
  localVariables: 'local_variables',
  metricVariables: 'metric_variables',
  movingAverageVariables: 'moving_average_variables',
  globalStep: 'global_step',
  losses: 'losses',
  regularizationLosses: 'regularization_losses',
  summaries: 'summaries',
  updateOps: 'update_ops',
  tableInitializers: 'table_initializer',
  /** Constants that hold paths of files which the graph reads: exports take the files along. */
  assetFilepaths: 'asset_filepaths',
  queueRunners: 'queue_runners',
  trainOp: 'train_op',
  initOp: 'init_op',
  readyOp: 'ready_op',
  localInitOp: 'local_init_op',
  savers: 'savers',
  /** Checkpoints that give variables their first values, of `initFromCheckpoint`. */
  warmStarts: 'shoal_warm_starts',
  /** Run before variables that were lost get values again: they drop what is left of steps that were lost with them. */
  resetOps: 'reset_ops',
} as const;
