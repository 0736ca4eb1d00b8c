"""Models read from JSON: outputs, and gradients of their weighted sum by inputs and weights; and the JSON of Keras."""
import json
import sys

import keras
import numpy as np
import tensorflow as tf


def name_of(variable):
    """`lstm/kernel` of `lstm/lstm_cell/kernel`."""
    return '/'.join(part for part in variable.path.split('/') if not part.endswith('_cell'))


def value_of(weights, variable):
    name = name_of(variable)
    found = [value for key, value in weights.items() if key == name or key.endswith('/' + name)]
    assert len(found) == 1, f'{len(found)} weights for {variable.path}: {list(weights)}'
    return np.array(found[0], 'float32').reshape(variable.shape)


def answer(case):
    model = keras.models.model_from_json(case['json'])
    for variable in model.weights:
        variable.assign(value_of(case['weights'], variable))
    assert len(model.weights) == len(case['weights']), [w.path for w in model.weights]
    inputs = [tf.constant(np.array(case['inputs'][one.name], one.dtype)) for one in model.inputs]
    floats = [one for one in inputs if one.dtype.is_floating]
    learned = model.trainable_weights
    with tf.GradientTape() as tape:
        for one in floats:
            tape.watch(one)
        outputs = model(inputs if len(inputs) > 1 else inputs[0], training=False)
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        loss = 0.0
        for y in outputs:
            loss += tf.reduce_sum(y * tf.cast(tf.reshape(tf.range(1, tf.size(y) + 1), y.shape), tf.float32) / 10.0)
    found = tape.gradient(loss, floats + [one.value for one in learned])
    dense = lambda g: None if g is None else tf.convert_to_tensor(g).numpy().tolist()
    return {
        'outputs': [y.numpy().tolist() for y in outputs],
        'inputs': [dense(g) for g in found[:len(floats)]],
        'weights': {name_of(one): dense(g) for one, g in zip(learned, found[len(floats):])},
        'json': model.to_json(),
    }


def safely(case):
    try:
        return answer(case)
    except Exception as error:  # The test of the case reports it.
        return {'error': f'{type(error).__name__}: {error}'}


print(json.dumps([safely(case) for case in json.load(sys.stdin)]))
