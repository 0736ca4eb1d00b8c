"""Streaming metrics of TensorFlow 1: for each batch the update, then the value. Reads cases as JSON."""

import json
import sys

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()

METRICS = {
    'mean': tf1.metrics.mean,
    'accuracy': tf1.metrics.accuracy,
    'precision': tf1.metrics.precision,
    'recall': tf1.metrics.recall,
    'auc': tf1.metrics.auc,
    'meanSquaredError': tf1.metrics.mean_squared_error,
}
OPTIONS = {'curve': 'curve', 'numThresholds': 'num_thresholds', 'thresholds': 'thresholds'}
METHODS = {'carefulInterpolation': 'careful_interpolation'}


def answer(case):
    with tf1.Graph().as_default():
        first = case['batches'][0]
        places = {name: tf1.placeholder(tf.float32, np.shape(value)) for name, value in first.items()}
        keywords = {OPTIONS[name]: value for name, value in case['options'].items() if name in OPTIONS}
        if 'summationMethod' in case['options']:
            method = case['options']['summationMethod']
            keywords['summation_method'] = METHODS.get(method, method)
        value, update = METRICS[case['metric']](**places, **keywords)
        names = [variable.op.name for variable in tf1.local_variables()]
        results = []
        with tf1.Session() as session:
            session.run(tf1.local_variables_initializer())
            results.append(float(session.run(value)))
            for batch in case['batches']:
                feeds = {places[name]: np.float32(batch[name]) for name in places}
                results.append(float(session.run(update, feeds)))
                results.append(float(session.run(value)))
    return {'values': results, 'variables': names}


print(json.dumps([answer(case) for case in json.load(sys.stdin)]))
