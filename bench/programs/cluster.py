# One task of the cluster benchmark, with the model that the settings name.
import numpy as np
import tensorflow as tf

from training_task import Task

task = Task()
v1, bench = tf.compat.v1, task.bench


def build():
    step = v1.train.get_or_create_global_step()
    if bench["model"] == "linear":
        x = tf.constant(np.arange(100, dtype=np.float32) / 100)
        y = x * 0.1 + 0.3
        w = v1.Variable(tf.random.uniform([1], -1, 1), use_resource=True)
        b = v1.Variable(tf.zeros([1]), use_resource=True)
        loss = tf.reduce_mean(tf.square(w * x + b - y))
        return loss, step, v1.train.AdagradOptimizer(0.01).minimize(loss, global_step=step)
    if bench["model"] == "rows":
        row = tf.random.uniform([], 0, 4096, dtype=tf.int32)
        rows = []
        for i in range(8):
            w = v1.get_variable(f"w{i}", [4096, 4096], initializer=v1.zeros_initializer(), use_resource=True)
            with tf.device(w.device):
                rows.append(tf.slice(w.read_value(), [row, 0], [1, 4096]))
        return tf.reduce_sum(tf.add_n(rows)), step, v1.assign_add(step, 1)
    images = tf.fill([100, 784], 0.5)
    labels = tf.one_hot(tf.range(100) % 10, 10)
    w = v1.get_variable("w", [784, 10], initializer=v1.zeros_initializer(), use_resource=True)
    b = v1.get_variable("b", [10], initializer=v1.zeros_initializer(), use_resource=True)
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=images @ w + b))
    return loss, step, v1.train.GradientDescentOptimizer(0.01).minimize(loss, global_step=step)


task.train(build)
