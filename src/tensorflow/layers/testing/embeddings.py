"""Embedding lookups of TensorFlow 1 and their gradients per partition. Reads cases as JSON."""

import json
import sys

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
OPTIONS = {'partitionStrategy': 'partition_strategy', 'maxNorm': 'max_norm', 'combiner': 'combiner',
           'defaultId': 'default_id'}


def sparse(parts, dtype):
    indices = np.array(parts['indices'], np.int64).reshape([-1, len(parts['denseShape'])])
    return tf.SparseTensor(indices, np.array(parts['values'], dtype), np.array(parts['denseShape'], np.int64))


def look_up(case, tables):
    keywords = {OPTIONS[name]: value for name, value in case['options'].items()}
    if case['lookup'] == 'dense':
        return tf1.nn.embedding_lookup(tables, np.array(case['ids'], np.int64), **keywords)
    weights = sparse(case['weights'], np.float32) if 'weights' in case else None
    call = tf1.nn.embedding_lookup_sparse if case['lookup'] == 'sparse' else tf1.nn.safe_embedding_lookup_sparse
    return call(tables, sparse(case['ids'], np.int64), weights, **keywords)


def answer(case):
    with tf1.Graph().as_default():
        tables = [
            tf1.get_variable('part_%d' % i, initializer=np.float32(part), use_resource=True)
            for i, part in enumerate(case['parts'])
        ]
        rows = look_up(case, tables)
        factors = tf.cast(tf.reshape(tf.range(1, tf.size(rows) + 1), tf.shape(rows)), tf.float32)
        gradients = [tf.convert_to_tensor(g) for g in tf1.gradients(tf.reduce_sum(rows * factors), tables)]
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            rows, gradients = session.run([rows, gradients])
    return {'rows': rows.tolist(), 'gradients': [gradient.tolist() for gradient in gradients]}


print(json.dumps([answer(case) for case in json.load(sys.stdin)]))
