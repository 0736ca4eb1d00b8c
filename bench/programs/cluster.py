# One task of the cluster benchmark, with the model that the settings name: those of `models.mjs`.
import numpy as np
import tensorflow as tf

from training_task import Task

task = Task()
v1 = tf.compat.v1


def variable(name, shape, initializer):
    return v1.get_variable(name, shape, initializer=initializer, use_resource=True)


def loss_of(logits):
    """Softmax cross-entropy of logits, with the classes in turn."""
    batch, classes = logits.shape
    labels = tf.one_hot(tf.range(batch) % classes, classes)
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def layers(batch, sizes):
    """Dense layers of these sizes, the first one that of the input, with ReLU between them."""
    x = tf.random.uniform([batch, sizes[0]])
    for i, size in enumerate(sizes[1:]):
        w = variable(f"w{i}", [sizes[i], size], v1.random_uniform_initializer(-0.05, 0.05))
        b = variable(f"b{i}", [size], v1.zeros_initializer())
        total = x @ w + b
        x = total if i == len(sizes) - 2 else tf.nn.relu(total)
    return loss_of(x), v1.train.GradientDescentOptimizer(0.01)


def linear():
    x = tf.constant(np.arange(100, dtype=np.float32) / 100)
    y = x * 0.1 + 0.3
    w = v1.Variable(tf.random.uniform([1], -1, 1), use_resource=True)
    b = v1.Variable(tf.zeros([1]), use_resource=True)
    return tf.reduce_mean(tf.square(w * x + b - y)), v1.train.AdagradOptimizer(0.01)


def softmax():
    images = tf.fill([100, 784], 0.5)
    w = variable("w", [784, 10], v1.zeros_initializer())
    b = variable("b", [10], v1.zeros_initializer())
    return loss_of(images @ w + b), v1.train.GradientDescentOptimizer(0.01)


def rows():
    """The worker chooses a row; each ps slices it from variables of 64 MB."""
    row = tf.random.uniform([], 0, 4096, dtype=tf.int32)
    sliced = []
    for i in range(8):
        w = variable(f"w{i}", [4096, 4096], v1.zeros_initializer())
        with tf.device(w.device):
            sliced.append(tf.slice(w.read_value(), [row, 0], [1, 4096]))
    return tf.reduce_sum(tf.add_n(sliced)), None


def gather():
    table = variable("table", [200_000, 64], v1.random_uniform_initializer(-1, 1))
    ids = tf.random.uniform([4096], 0, 200_000, tf.int32)
    return tf.reduce_mean(tf.square(tf.gather(table, ids))), v1.train.AdagradOptimizer(0.01)


MODELS = {
    "linear": linear,
    "softmax": softmax,
    "perceptron": lambda: layers(64, [784, 512, 512, 10]),
    "dense": lambda: layers(32, [2048, 4096, 4096, 10]),
    "rows": rows,
    "gather": gather,
}


def build():
    step = v1.train.get_or_create_global_step()
    loss, optimizer = MODELS[task.bench["model"]]()
    train = v1.assign_add(step, 1) if optimizer is None else optimizer.minimize(loss, global_step=step)
    return loss, step, train


task.train(build)
