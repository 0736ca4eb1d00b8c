"""
The softmax regression of scenario 002 in one Python TensorFlow process: the accuracy on held-out digits after training by
one worker, and by two asynchronous ones, each of which computes a gradient while that of the other is applied.
"""
import json
import sys

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
request = json.load(sys.stdin)


def digits(name):
    images = np.fromfile(f"{request['directory']}/{name}.images", np.float32).reshape(-1, 784)
    return images, np.fromfile(f"{request['directory']}/{name}.labels", np.int32)


def batches(worker):
    return np.fromfile(f"{request['directory']}/batches-{worker}", np.int32).reshape(-1, request["batch"])


images, labels = digits("train")
held_out, held_out_labels = digits("heldOut")


def train(order, late, last):
    """Applies each gradient `late` steps after it was computed. Returns the accuracy after each of the last steps."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 784])
        y_ = v1.placeholder(tf.float32, [None, 10])
        w = v1.get_variable("w", initializer=tf.zeros([784, 10]), use_resource=True)
        b = v1.get_variable("b", initializer=tf.zeros([10]), use_resource=True)
        y = tf.nn.softmax(tf.matmul(x, w) + b)
        loss = -tf.reduce_sum(y_ * tf.math.log(tf.clip_by_value(y, 1e-10, 1.0)))
        optimizer = v1.train.GradientDescentOptimizer(request["rate"])
        gradients = [gradient for gradient, _ in optimizer.compute_gradients(loss, [w, b])]
        given = [v1.placeholder(tf.float32, gradient.shape) for gradient in gradients]
        apply = optimizer.apply_gradients(zip(given, [w, b]))
        session.run(v1.global_variables_initializer())
        computed = []
        accuracies = []
        for step, batch in enumerate(order):
            feeds = {x: images[batch], y_: np.eye(10, dtype=np.float32)[labels[batch]]}
            computed.append(session.run(gradients, feeds))
            if len(computed) > late:
                session.run(apply, dict(zip(given, computed.pop(0))))
            if step >= len(order) - last:
                found = session.run(y, {x: held_out}).argmax(axis=1)
                accuracies.append(float((found == held_out_labels).mean()))
        return accuracies


first, second = batches(0), batches(1)
both = np.stack([first, second], axis=1).reshape(-1, request["batch"])[: len(first)]
print(json.dumps({"one": train(first, 0, 1), "two": train(both, 1, min(200, len(both)))}))
