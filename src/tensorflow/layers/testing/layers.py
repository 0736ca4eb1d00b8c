"""TensorFlow's result for each layer: output, gradients of input and weights, moving averages."""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def array(value):
    return np.array(value, np.float32)


def pair(value):
    return value if isinstance(value, list) else [value, value]


def dense(x, w, options):
    y = tf.tensordot(x, w['kernel'], [[-1], [0]])
    return tf.nn.relu(y + w['bias']) if 'bias' in w else y


def conv2d(x, w, options):
    strides, dilations = pair(options.get('strides', 1)), pair(options.get('dilations', 1))
    y = tf.nn.conv2d(x, w['kernel'], strides, options.get('padding', 'valid').upper(), dilations=dilations)
    return tf.nn.bias_add(y, w['bias'])


def pool(kind):
    def run(x, w, options):
        size = pair(options['size'])
        strides = pair(options.get('strides', options['size']))
        return kind(x, size, strides, options.get('padding', 'valid').upper())
    return run


def batch_norm(x, w, options):
    momentum, epsilon = options.get('momentum', 0.99), options.get('epsilon', 1e-3)
    gamma, beta = w.get('gamma'), w.get('beta')
    mean, variance = w['moving_mean'], w['moving_variance']
    training = options['training']
    axis = options.get('axis', -1) % len(x.shape)
    fused = options.get('fused', len(x.shape) == 4 and axis == 3)
    if fused:
        ones, zeros = tf.ones_like(mean), tf.zeros_like(mean)
        y, m, v = tf1.nn.fused_batch_norm(
            x, ones if gamma is None else gamma, zeros if beta is None else beta,
            None if training else mean, None if training else variance,
            epsilon=epsilon, is_training=training)
    else:
        others = [i for i in range(len(x.shape)) if i != axis]
        m, v = tf.nn.moments(x, others) if training else (mean, variance)
        along = [-1 if i == axis else 1 for i in range(len(x.shape))]
        stretch = lambda value: None if value is None else tf.reshape(value, along)
        y = tf.nn.batch_normalization(x, *map(stretch, (m, v, beta, gamma)), epsilon)
    if training:
        w['moving_mean'] = mean - (mean - m) * (1 - momentum)
        w['moving_variance'] = variance - (variance - v) * (1 - momentum)
    return y


def layer_norm(x, w, options):
    layer = keras.layers.LayerNormalization(
        axis=options.get('axis', -1), epsilon=options.get('epsilon', 1e-3),
        center='beta' in w, scale='gamma' in w)
    layer.build(x.shape)
    # Constants in place of the layer's variables, so that the tape sees them.
    return layer_norm_with(layer, x, w)


def layer_norm_with(layer, x, w):
    layer.set_weights([w[name].numpy() for name in ('gamma', 'beta') if name in w])
    y = layer(x)
    by = {'gamma': layer.gamma, 'beta': layer.beta}
    for name in w:
        w[name] = by[name].value
    return y


LAYERS = {
    'dense': dense,
    'conv2d': conv2d,
    'maxPooling2d': pool(tf.nn.max_pool2d),
    'averagePooling2d': pool(tf.nn.avg_pool2d),
    'batchNorm': batch_norm,
    'layerNorm': layer_norm,
}


def answer(case):
    if case['layer'] == 'dropout':
        return dropout(case)
    if case['layer'] == 'regularizer':
        made = getattr(keras.regularizers, case['kind'])(case['scale'])
        return {'y': float(made(tf.constant(array(case['x']))))}
    x = tf.constant(array(case['x']))
    w = {name: tf.constant(array(value)) for name, value in case['weights'].items()}
    with tf.GradientTape() as tape:
        tape.watch(x)
        for value in w.values():
            tape.watch(value)
        y = LAYERS[case['layer']](x, w, case['options'])
        factors = tf.cast(tf.reshape(tf.range(1, tf.size(y) + 1), y.shape), tf.float32)
        loss = tf.reduce_sum(y * factors)
    learned = [name for name in w if not name.startswith('moving')]
    gradients = tape.gradient(loss, [x] + [w[name] for name in learned])
    return {
        'y': y.numpy().tolist(),
        'gradients': {name: g.numpy().tolist() for name, g in zip(['x'] + learned, gradients)},
        'moving': {name: w[name].numpy().tolist() for name in w if name.startswith('moving')},
    }


def dropout(case):
    options = case['options']
    with tf1.Graph().as_default():
        y = tf1.nn.dropout(tf.constant(array(case['x'])), rate=options['rate'], seed=options['seed'],
                           noise_shape=options.get('noiseShape'))
        with tf1.Session() as session:
            return {'y': [session.run(y).tolist() for _ in range(3)]}


print(json.dumps([answer(case) for case in json.load(sys.stdin)]))
