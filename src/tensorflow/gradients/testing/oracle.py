"""Computes gradients with TensorFlow: JSON requests on stdin, JSON results on the last line of stdout."""

import base64
import json
import sys
import traceback

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops

tf1 = tf.compat.v1
tf1.disable_eager_execution()


def decode(tensor):
    if tensor['dtype'] == 'string':
        return np.array([text.encode() for text in tensor['data']], dtype=object).reshape(tensor['shape'])
    dtype = tf.as_dtype(tensor['dtype']).as_numpy_dtype
    return np.frombuffer(base64.b64decode(tensor['data']), dtype=dtype).reshape(tensor['shape'])


def encode(array, sparse):
    array = np.asarray(array)
    return {
        'dtype': tf.as_dtype(array.dtype).name,
        'shape': list(array.shape),
        'data': base64.b64encode(np.ascontiguousarray(array).tobytes()).decode(),
        'sparse': sparse,
    }


def answer(question):
    graph_def = tf1.GraphDef.FromString(base64.b64decode(question['graph']))
    with tf1.Graph().as_default() as graph:
        tf1.import_graph_def(graph_def, name='')
        tensors = lambda names: [graph.get_tensor_by_name(name) for name in names]
        ys, xs, grad_ys = tensors(question['ys']), tensors(question['xs']), tensors(question['gradYs'])
        gradients = tf1.gradients(ys, xs, grad_ys) if ys else [None for _ in xs]
        if 'secondGradYs' in question:
            firsts = [gradient for gradient in gradients if gradient is not None]
            seconds = tensors(question['secondGradYs'])
            gradients = tf1.gradients(firsts, xs, seconds) if firsts else [None for _ in xs]
        sparse = [isinstance(gradient, tf.IndexedSlices) for gradient in gradients]
        dense = {
            i: tf.convert_to_tensor(gradient) for i, gradient in enumerate(gradients) if gradient is not None
        }
        feeds = {name + ':0': decode(tensor) for name, tensor in question['feeds'].items()}
        with tf1.Session() as session:
            if question['init']:
                session.run([graph.get_operation_by_name(name) for name in question['init']], feeds)
            values = session.run(dense, feeds)
    return {'gradients': [
        encode(values[i], sparse[i]) if i in values else None for i in range(len(gradients))
    ]}


def look_up(op):
    try:
        return 'none' if ops.gradient_registry.lookup(op) is None else 'gradient'
    except LookupError:
        return 'unknown'


def safely(question):
    try:
        return answer(question)
    except Exception:
        return {'error': traceback.format_exc(limit=-3)}


request = json.load(sys.stdin)
print(json.dumps({
    'cases': [safely(question) for question in request['cases']],
    'lookUp': {op: look_up(op) for op in request.get('lookUp', [])},
}))
