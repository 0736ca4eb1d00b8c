"""Keras' losses, with the gradient by the predictions, and metrics over two batches; by name, with and without weights."""
import json
import sys

import keras
import numpy as np
import tensorflow as tf
from keras.src.losses.losses import LossFunctionWrapper

METRICS = {'auc': 'AUC', 'precision': 'Precision', 'recall': 'Recall', 'log_cosh_error': 'LogCoshError'}


def metric_of(case):
    name = case['keras']
    if name == 'accuracy':
        name = case['accuracy']
    try:
        found = keras.metrics.get(METRICS.get(name, name))
    except ValueError:  # Losses without a metric of their own.
        found = keras.losses.get(name)
    return found if isinstance(found, keras.metrics.Metric) else keras.metrics.MeanMetricWrapper(found)


def answer(case):
    y, p = np.array(case['y'], case.get('dtype', 'float32')), np.array(case['p'], 'float32')
    weights = None if case.get('weights') is None else np.array(case['weights'], 'float32')
    if case['kind'] == 'metric':
        metric = metric_of(case)
        half = len(y) // 2
        for part in (slice(0, half), slice(half, None)):
            metric.update_state(y[part], p[part], sample_weight=None if weights is None else weights[part])
        return {'value': float(metric.result())}
    loss = LossFunctionWrapper(keras.losses.get(case['keras']))
    x = tf.constant(p)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = loss(y, x, sample_weight=weights)
    return {'value': float(value), 'gradient': tape.gradient(value, x).numpy().tolist()}


def safely(case):
    try:
        return answer(case)
    except Exception as error:  # The test of the case reports it.
        return {'error': f'{type(error).__name__}: {error}'}


print(json.dumps([safely(case) for case in json.load(sys.stdin)]))
