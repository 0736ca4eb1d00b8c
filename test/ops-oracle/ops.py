"""Single ops in Python TensorFlow: each case is one call of tf.raw_ops."""

import base64
import inspect
import json
import sys
import traceback

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry


def decode(tensor):
    if tensor['dtype'] == 'string':
        values = np.array([base64.b64decode(text) for text in tensor['data']], dtype=object)
        return tf.constant(values.reshape(tensor['shape']), tf.string, tensor['shape'])
    dtype = tf.as_dtype(tensor['dtype'])
    array = np.frombuffer(base64.b64decode(tensor['data']), dtype=dtype.as_numpy_dtype)
    return tf.constant(array.reshape(tensor['shape']), dtype)


def encode(tensor):
    array = tensor.numpy()
    if tensor.dtype == tf.string:
        flat = np.asarray(array, dtype=object).reshape(-1)
        data = [base64.b64encode(text).decode() for text in flat]
    else:
        data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {'dtype': tensor.dtype.name, 'shape': tensor.shape.as_list(), 'data': data}


def attribute(kind, value):
    if kind == 'type':
        return tf.as_dtype(value)
    if kind == 'list(type)':
        return [tf.as_dtype(item) for item in value]
    return value


def renamed(arguments, function):
    """Python renames some inputs and attributes of the op definition but keeps their order."""
    parameters = [name for name in inspect.signature(function).parameters if name != 'name']
    unknown = [name for name in arguments if name not in parameters]
    free = [name for name in parameters if name not in arguments]
    names = dict(zip(unknown, free))
    return {names.get(name, name): value for name, value in arguments.items()}


def answer(question):
    definition = op_def_registry.get(question['op'])
    kinds = {attr.name: attr.type for attr in definition.attr}
    inputs = [
        [decode(tensor) for tensor in given] if isinstance(given, list) else decode(given)
        for given in question['inputs']
    ]
    arguments = {arg.name: value for arg, value in zip(definition.input_arg, inputs, strict=True)}
    arguments.update({name: attribute(kinds[name], value) for name, value in question['attrs'].items()})
    function = getattr(tf.raw_ops, question['op'])
    result = function(**renamed(arguments, function))
    if isinstance(result, (list, tuple)):
        flat = [
            tensor for part in result for tensor in (part if isinstance(part, (list, tuple)) else [part])
        ]
    else:
        flat = [result]
    return {'outputs': [encode(tensor) for tensor in flat]}


def safely(question):
    try:
        return answer(question)
    except Exception:
        return {'error': traceback.format_exc(limit=-2)}


print(json.dumps([safely(question) for question in json.load(sys.stdin)]))
