"""Feature columns of TensorFlow 1, for cases described in JSON: results, gradients, variables, parse specifications, and
checkpoints. With `restore`, the variables have the values of a checkpoint, else some of their own, which are saved."""

import json
import re
import sys

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
fc = tf1.feature_column
FUNCTIONS = {'log1p': tf.math.log1p}


def snake(name):
    return re.sub('([A-Z])', lambda found: '_' + found.group(1).lower(), name)


def argument(value):
    if isinstance(value, dict):
        return column(value)
    return [argument(item) for item in value] if isinstance(value, list) else value


def option(name, value):
    if name == 'dtype':
        return tf.as_dtype(value)
    return FUNCTIONS[value] if name == 'normalizerFn' else value


def column(spec):
    options = {snake(name): option(name, value) for name, value in spec.get('options', {}).items()}
    return getattr(fc, snake(spec['call']))(*[argument(value) for value in spec['args']], **options)


def columns_of(case):
    made = []
    for spec in case['columns']:
        one = column(spec)
        made += one if isinstance(one, list) else [one]
    return made


def feature(spec):
    dtype = tf.as_dtype(spec['dtype'])
    if 'indices' not in spec:
        return tf.constant(spec['values'], dtype)
    return tf.SparseTensor(np.array(spec['indices'], np.int64), tf.constant(spec['values'], dtype), spec['denseShape'])


def some_values(variable, index):
    count = int(np.prod(variable.shape.as_list()))
    return np.cos(np.arange(count) * (1.3 + index) + index).astype(np.float32).reshape(variable.shape.as_list()) * 0.5


def build(case, columns, features):
    call = getattr(fc, snake(case['model']))
    options = {snake(name): value for name, value in case.get('options', {}).items()}
    results = []
    partitioner = tf1.fixed_size_partitioner(case['partitions']) if 'partitions' in case else None
    for scope in case.get('scopes', ['']):
        if scope == '' and partitioner is None:
            results.append(call(features, columns, **options))
            continue
        with tf1.variable_scope(scope or tf1.get_variable_scope(), partitioner=partitioner, reuse=tf1.AUTO_REUSE):
            results.append(call(features, columns, **options))
    return tf.concat(results, 1)


def plain(spec):
    if isinstance(spec, tf.io.VarLenFeature):
        return {'kind': 'variable', 'dtype': spec.dtype.name}
    default = spec.default_value
    made = {'kind': 'fixed', 'dtype': spec.dtype.name, 'shape': list(spec.shape)}
    return made if default is None else {**made, 'defaultValue': np.array(default).tolist()}


def answer(case, restore):
    with tf1.Graph().as_default():
        features = {key: feature(spec) for key, spec in case['features'].items()}
        columns = columns_of(case)
        result = build(case, columns, features)
        variables = tf1.global_variables()
        numbers = {key: value for key, value in features.items() if value.dtype == tf.float32}
        inputs = [value.values if isinstance(value, tf.SparseTensor) else value for value in numbers.values()]
        factors = tf.cast(tf.reshape(tf.range(1, tf.size(result) + 1), tf.shape(result)), tf.float32)
        trained = tf1.trainable_variables()
        found = tf1.gradients(tf.reduce_sum(result * factors), trained + inputs)
        names = [variable.op.name for variable in trained] + list(numbers)
        gradients = {name: tf.convert_to_tensor(g) for name, g in zip(names, found) if g is not None}
        saver = tf1.train.Saver() if variables else None
        with tf1.Session() as session:
            session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
            if saver and restore:
                saver.restore(session, case['checkpoint'])
            elif saver:
                for index, variable in enumerate(variables):
                    variable.load(some_values(variable, index), session)
                saver.save(session, case['checkpoint'], write_meta_graph=False)
            value, gradients = session.run([result, gradients])
        return {
            'result': value.tolist(),
            'gradients': {name: gradient.tolist() for name, gradient in gradients.items()},
            'variables': {variable.op.name: variable.shape.as_list() for variable in variables},
            'trainable': [variable.op.name for variable in trained],
            'model': sorted({variable.op.name for variable in tf1.get_collection('model_variables')}),
            'spec': {key: plain(spec) for key, spec in fc.make_parse_example_spec(columns).items()},
        }


request = json.load(sys.stdin)
print(json.dumps([answer(case, request['restore']) for case in request['cases']]))
