"""Graphs in Python TensorFlow: names and devices of ops; imports and exports GraphDefs and MetaGraphDefs."""

import base64
import contextlib
import json
import sys

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()


def names(script):
    """The names of no-ops in nested name scopes."""
    made = []
    with tf1.Graph().as_default() as graph:
        stack = contextlib.ExitStack()
        open_scopes = []
        with stack:
            for word, argument in script:
                if word == 'enter':
                    scope = graph.name_scope(argument)
                    made.append(scope.__enter__())
                    open_scopes.append(scope)
                elif word == 'leave':
                    open_scopes.pop().__exit__(None, None, None)
                elif word == 'unique':
                    made.append(graph.unique_name(argument))
                else:
                    made.append(tf1.no_op(name=argument).name)
    return made


def devices(stacks):
    result = []
    for scopes in stacks:
        with tf1.Graph().as_default() as graph, contextlib.ExitStack() as stack:
            for scope in scopes:
                stack.enter_context(graph.device(scope))
            result.append(tf1.no_op().device)
    return result


def run_graph_def(question):
    with tf1.Graph().as_default() as graph:
        tf1.import_graph_def(tf1.GraphDef.FromString(base64.b64decode(question['graph'])), name='')
        with tf1.Session(graph=graph) as session:
            if question.get('init'):
                session.run(question['init'])
            values = session.run(question['fetches'], question['feeds'])
    return [np.asarray(value).tolist() for value in values]


def run_meta_graph(question):
    with tf1.Graph().as_default() as graph:
        meta = tf1.MetaGraphDef.FromString(base64.b64decode(question['meta']))
        tf1.train.import_meta_graph(meta, import_scope=question.get('scope'))
        with tf1.Session(graph=graph) as session:
            session.run(tf1.global_variables_initializer())
            return {
                'variables': {v.op.name: v.eval(session).tolist() for v in tf1.global_variables()},
                'trainable': [v.op.name for v in tf1.trainable_variables()],
                'slices': {
                    v.op.name: [v._save_slice_info.full_name, list(v._save_slice_info.var_offset)]
                    for v in tf1.global_variables() if v._save_slice_info
                },
                'inputs': [tensor.name for tensor in tf1.get_collection('inputs')],
                'words': [tf.compat.as_str(word) for word in tf1.get_collection('words')],
                'numbers': list(tf1.get_collection('numbers')),
                'values': [value.tolist() for value in session.run(question['fetches'], question['feeds'])],
            }


def make_meta_graph():
    with tf1.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 2], name='x')
        with tf1.variable_scope('layer', use_resource=True):
            w = tf1.get_variable('w', initializer=np.array([[1., 2.], [3., 4.]], np.float32))
            b = tf1.get_variable('b', initializer=np.array([.5, -.5], np.float32), trainable=False)
        step = tf1.train.get_or_create_global_step(graph)
        y = tf.identity(tf1.matmul(x, w) + b, name='y')
        total = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + tf.reduce_sum(y)), [0, 0.])[1]
        chosen = tf.identity(tf.cond(total > 0, lambda: total, lambda: -total), name='chosen')
        increment = tf1.assign_add(step, 1, name='increment')
        tf1.add_to_collection('outputs', y)
        tf1.add_to_collection('words', 'one')
        tf1.add_to_collection('numbers', 7)
        tf1.add_to_collection('train_op', increment.op)
        feeds = {x: [[1., 1.], [0., 2.]]}
        with tf1.Session(graph=graph) as session:
            session.run(tf1.global_variables_initializer())
            session.run(increment)
            values = session.run([y, chosen, step], feeds)
        meta = tf1.train.export_meta_graph()
    return {
        'meta': base64.b64encode(meta.SerializeToString()).decode(),
        'values': [np.asarray(value).tolist() for value in values],
    }


request = json.load(sys.stdin)
print(json.dumps({
    'names': names(request['names']),
    'devices': devices(request['devices']),
    'graph': run_graph_def(request['graph']),
    'meta': run_meta_graph(request['meta']),
    'scoped': run_meta_graph(request['scoped']),
    'made': make_meta_graph(),
}))
