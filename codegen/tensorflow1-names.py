"""Prints the public names of TensorFlow 1 as JSON: `tf.compat.v1` without the modules that have little to do with graphs."""
import json
import types

import tensorflow as tf

# Listed as one name each: other products, tools, the ops without their Python functions, and what only eager programs use.
AS_ONE = {
    'app', 'audio', 'autograph', 'bitwise', 'compat', 'config', 'distribute', 'distributions', 'dtypes', 'estimator',
    'experimental', 'feature_column', 'flags', 'gfile', 'keras', 'linalg', 'lite', 'logging', 'manip', 'mixed_precision',
    'mlir', 'nest', 'profiler', 'quantization', 'ragged', 'raw_ops', 'resource_loader', 'sets', 'signal', 'spectral',
    'sysconfig', 'test', 'tpu', 'types', 'user_ops', 'version', 'xla',
}
# TensorFlow 2.16 and later have these in a package that is not installed with them.
LAYERS = '''
    average_pooling1d average_pooling2d average_pooling3d batch_normalization conv1d conv2d conv2d_transpose conv3d
    conv3d_transpose dense dropout flatten max_pooling1d max_pooling2d max_pooling3d separable_conv1d
    separable_conv2d
'''


def names_in(module, prefix):
    for name in sorted(dir(module)):
        if name.startswith('_'):
            continue
        full = f'{prefix}.{name}'
        if name in AS_ONE and (prefix == 'tf' or name in {'experimental', 'gfile'}):
            yield f'{full}.*'
            continue
        if full == 'tf.layers':
            yield from (f'{full}.{layer}' for layer in LAYERS.split())
            continue
        if full == 'tf.nn.rnn_cell':
            yield f'{full}.*'
            continue
        try:
            value = getattr(module, name)
        except Exception:  # Lazily loaded from a package that is not installed.
            continue
        if not isinstance(value, types.ModuleType):
            yield full
        elif prefix.count('.') < 2:
            yield from names_in(value, full)


print(json.dumps(sorted(set(names_in(tf.compat.v1, 'tf')))))
