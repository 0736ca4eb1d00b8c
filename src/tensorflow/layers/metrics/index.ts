/** `tf.metrics`: TensorFlow 1's streaming metrics. */
export { type AucOptions, auc, type Curve, type SummationMethod } from './auc.js';
export { precision, recall } from './confusion.js';
export { accuracy, mean, meanSquaredError } from './mean.js';
export type { Metric, MetricOptions } from './metric.js';
export { resetMetrics } from './reset.js';
