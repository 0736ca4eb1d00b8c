"""Losses of TensorFlow 1 and the gradients of the predictions. Reads cases as JSON from stdin."""

import json
import sys

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()

REDUCTIONS = {
    'none': 'none',
    'sum': 'weighted_sum',
    'mean': 'weighted_mean',
    'sumOverBatchSize': 'weighted_sum_over_batch_size',
    'sumByNonzeroWeights': 'weighted_sum_by_nonzero_weights',
}
LOSSES = {
    'softmaxCrossEntropy': tf1.losses.softmax_cross_entropy,
    'sparseSoftmaxCrossEntropy': tf1.losses.sparse_softmax_cross_entropy,
    'sigmoidCrossEntropy': tf1.losses.sigmoid_cross_entropy,
    'hinge': tf1.losses.hinge_loss,
    'log': tf1.losses.log_loss,
    'meanSquared': tf1.losses.mean_squared_error,
    'absoluteDifference': tf1.losses.absolute_difference,
    'huber': tf1.losses.huber_loss,
}
OPTIONS = {'labelSmoothing': 'label_smoothing', 'delta': 'delta', 'epsilon': 'epsilon'}


def answer(case):
    options = case['options']
    with tf1.Graph().as_default():
        predictions = tf.constant(np.float32(case['predictions']))
        dtype = np.int32 if case['loss'] == 'sparseSoftmaxCrossEntropy' else np.float32
        keywords = {OPTIONS[name]: value for name, value in options.items() if name in OPTIONS}
        if 'reduction' in options:
            keywords['reduction'] = REDUCTIONS[options['reduction']]
        if 'weights' in options:
            weights = options['weights']
            keywords['weights'] = weights if isinstance(weights, (int, float)) else np.float32(weights)
        loss = LOSSES[case['loss']](dtype(case['labels']), predictions, **keywords)
        gradient = tf1.gradients(loss, predictions)[0]
        total = tf1.losses.get_total_loss() if loss.shape.rank == 0 else loss
        with tf1.Session() as session:
            values = session.run([loss, gradient, total])
    return [value.tolist() for value in values]


print(json.dumps([answer(case) for case in json.load(sys.stdin)]))
