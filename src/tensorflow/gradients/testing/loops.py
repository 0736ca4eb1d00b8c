"""The loops of cases/control-flow.ts in Python TensorFlow. Reads inputs and prints gradients as JSON."""

import json
import sys

import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()
tf1.enable_control_flow_v2()


def sines(rounds):
    def build(x, y):
        return tf.while_loop(lambda i, v: i < rounds, lambda i, v: (i + 1, tf.sin(v * y)), (0, x))[1:]
    return build


def several(x, y, z):
    return tf.while_loop(
        lambda i, a, b, c: i < 3,
        lambda i, a, b, c: (i + 1, b * c, a + b * tf.cast(i, tf.float64), c),
        (0, x, y, z),
    )[1:]


def values(x, y):
    return tf.while_loop(lambda v: v < 5, lambda v: (v * y,), (x,), maximum_iterations=4)


def grows(x):
    return tf.while_loop(
        lambda i, v: i < 2,
        lambda i, v: (i + 1, tf.concat([v, tf.square(v)], 0)),
        (0, x),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 2])),
    )[1:]


def nested(x, y):
    def body(i, v):
        w = tf.cond(tf.equal(i, 1), lambda: v * y, lambda: tf.sin(v))
        return i + 1, tf.while_loop(lambda j, u: j < i, lambda j, u: (j + 1, u * y), (0, w))[1]
    return tf.while_loop(lambda i, v: i < 3, body, (0, x))[1:]


LOOPS = {
    '0 rounds': sines(0),
    '1 rounds': sines(1),
    '3 rounds': sines(3),
    'several variables, one passed through': several,
    'a number of iterations that depends on the values': values,
    'a variable that grows': grows,
    'a nested cond and a nested loop': nested,
    'twice': sines(3),
}


def answer(name, inputs):
    with tf1.Graph().as_default():
        xs = [tf.constant(value, tf.float64) for value in inputs]
        ys = LOOPS[name](*xs)
        gradients = tf1.gradients(ys, xs)
        if name == 'twice':
            gradients = tf1.gradients(gradients, xs)
        with tf1.Session() as session:
            present = [g if g is not None else tf.zeros_like(x) for g, x in zip(gradients, xs)]
            return [value.tolist() for value in session.run(present)]


questions = json.load(sys.stdin)
print(json.dumps([answer(q['name'], q['inputs']) for q in questions]))
