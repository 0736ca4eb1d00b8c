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
    images = tf.fill([100, 784], 0.5)
    labels = tf.one_hot(tf.range(100) % 10, 10)
    w = v1.get_variable("w", [784, 10], initializer=v1.zeros_initializer(), use_resource=True)
    b = v1.get_variable("b", [10], initializer=v1.zeros_initializer(), use_resource=True)
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=images @ w + b))
    return loss, step, v1.train.GradientDescentOptimizer(0.01).minimize(loss, global_step=step)


task.train(build)
