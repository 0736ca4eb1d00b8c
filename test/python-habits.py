"""The values of test/python-habits.test.ts, computed by Python's TensorFlow."""

import json

import numpy as np
import tensorflow as tf2

tf = tf2.compat.v1
tf.disable_v2_behavior()


def plain(value):
    return [item.decode() if isinstance(item, bytes) else item for item in np.asarray(value).ravel().tolist()]


step = tf.Variable(0, name="step", trainable=False)
weight = tf.Variable(0.5, name="weight")
count = tf.Variable(3, name="count")
train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.square(weight), global_step=step, var_list=None, name=None)
one = tf.train.batch([tf.constant(1.0)], batch_size=2)
two = tf.train.shuffle_batch([tf.constant(1.0), tf.constant([2.0])], batch_size=2, capacity=10, min_after_dequeue=1)
shuffled = tf.train.shuffle_batch([tf.constant([1.0, 2.0])], batch_size=2, capacity=10, min_after_dequeue=1)
words = tf.constant(["a b", "c"])
x = tf.constant([[1.0, 2], [3, 4]])
values = {
    "asString": tf.strings.as_string([1.0, 2], precision=2),
    "einsum": tf.einsum("ij,jk->ik", x, x),
    "erf": tf.erf([0.5]),
    "format": tf.strings.format("is {}", tf.constant([1, 2])),
    "gelu": tf2.nn.gelu([0.5, -1]),
    "hash": tf.strings.to_hash_bucket_fast(words, 100, name="hash"),
    "join": tf.strings.join([words, words], separator="-"),
    "reduceJoin": tf.strings.reduce_join([["a", "b"], ["c", "d"]], separator="-"),
    "replace": tf.strings.regex_replace(words, " ", "_"),
    "softmax": tf.nn.softmax(x, axis=0, name="p"),
    "split": tf.strings.split(words).values,
    "strong": tf.strings.to_hash_bucket_strong(words, 100, [1, 2]),
    "substr": tf.strings.substr(words, [0, 0], [1, 1]),
    "toInt32": tf.to_int32([1.9, -1.9]),
    "toNumber": tf.strings.to_number(["1", "2.5"]),
    "upper": tf.strings.upper(words),
}
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(train)
    answer = {
        "dtypes": [v.dtype.base_dtype.name for v in (step, weight, count)],
        "after": [float(v) for v in session.run([step, weight, count])],
        "one": one.shape.as_list(),
        "shuffled": shuffled.shape.as_list(),
        "two": [t.shape.as_list() for t in two],
        "values": {name: plain(value) for name, value in session.run(values).items()},
    }
print(json.dumps(answer))
