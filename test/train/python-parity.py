"""The example models in Python TensorFlow, one process: losses of synchronous and of asynchronous training, as JSON.

Synchronously the workers' gradients are averaged and applied together; asynchronously the workers take turns. What each
worker reads is its own: points of the line, or one of the files.
"""
import json
import sys

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
request = json.load(sys.stdin)
STEPS = request["steps"]


def line(start):
    """The losses of each worker, and the optimizer, in the default graph."""
    w = v1.get_variable("W", initializer=tf.constant([start], tf.float32), use_resource=True)
    b = v1.get_variable("b", initializer=tf.zeros([1]), use_resource=True)
    losses = []
    for points in request["points"]:
        x = np.array(points, np.float32)
        y = (0.1 * np.array(points)).astype(np.float64) + 0.3
        losses.append(v1.losses.mean_squared_error(tf.constant(y.astype(np.float32)), w * tf.constant(x) + b))
    return losses, v1.train.AdagradOptimizer(0.01)


def sparse(_start):
    features = {
        "label": tf.io.FixedLenFeature([], tf.float32),
        "ids": tf.io.VarLenFeature(tf.int64),
        "values": tf.io.VarLenFeature(tf.float32),
    }
    weights = v1.get_variable("weights", [request["features"], 2], initializer=v1.zeros_initializer(), use_resource=True)
    bias = v1.get_variable("bias", [2], initializer=v1.zeros_initializer(), use_resource=True)
    losses = []
    for file in request["files"]:
        dataset = tf.data.TFRecordDataset(file).batch(request["batch"])
        dataset = dataset.map(lambda records: tf.io.parse_example(records, features))
        row = v1.data.make_one_shot_iterator(dataset).get_next()
        logits = v1.nn.embedding_lookup_sparse(weights, row["ids"], row["values"], combiner="sum") + bias
        losses.append(v1.losses.sparse_softmax_cross_entropy(tf.cast(row["label"], tf.int64), logits))
    return losses, v1.train.FtrlOptimizer(0.01)


def accumulate(gradients, variable):
    """What SyncReplicasOptimizer does with the gradients of one variable: (ops that send them, the mean)."""
    late = tf.constant(1 << 40, tf.int64)
    if isinstance(gradients[0], tf.IndexedSlices):
        accumulator = v1.SparseConditionalAccumulator(tf.float32, shape=variable.shape)
        give = [accumulator.apply_indexed_slices_grad(in_order(g), local_step=late) for g in gradients]
        return give, accumulator.take_indexed_slices_grad(len(gradients))
    accumulator = v1.ConditionalAccumulator(tf.float32, shape=variable.shape)
    return [accumulator.apply_grad(g, local_step=late) for g in gradients], accumulator.take_grad(len(gradients))


def in_order(slices):
    """The accumulator expects its rows in order."""
    order = tf.argsort(slices.indices)
    return tf.IndexedSlices(tf.gather(slices.values, order), tf.gather(slices.indices, order), slices.dense_shape)


def synchronous(model, start):
    with tf.Graph().as_default():
        losses, optimizer = model(start)
        towers = [optimizer.compute_gradients(loss) for loss in losses]
        given, means = [], []
        for pairs in zip(*towers):
            variable = pairs[0][1]
            give, mean = accumulate([gradient for gradient, _ in pairs], variable)
            given += give
            means.append((mean, variable))
        update = optimizer.apply_gradients(means)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            history = []
            for _ in range(STEPS):
                found, _ = session.run([losses, given])
                history.append(float(np.mean(np.array(found, np.float64))))
                session.run(update)
            return history


def asynchronous(model, start):
    with tf.Graph().as_default():
        losses, optimizer = model(start)
        updates = [optimizer.minimize(loss) for loss in losses]
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            return [
                float(session.run([loss, update])[0]) for _ in range(STEPS) for loss, update in zip(losses, updates)
            ]


model = {"line": line, "sparse": sparse}[sys.argv[1]]
print(json.dumps({
    "sync": synchronous(model, request.get("sync", 0)),
    "async": asynchronous(model, request.get("async", 0)),
}))
