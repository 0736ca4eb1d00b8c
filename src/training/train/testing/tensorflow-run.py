"""Trains the small model with TensorFlow's own Saver (`train`), or prints what TensorFlow finds in a directory (`look`)."""
import json
import os
import sys

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()


def train(directory, steps, every=5, name="w", adagrad=False):
    """Continues from the newest checkpoint, and saves every `every` steps."""
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        x = tf.constant([0.1, 0.5, 0.9])
        y = tf.constant([0.31, 0.35, 0.39])
        w = v1.get_variable(name, initializer=tf.constant([1.0]), use_resource=True)
        b = v1.get_variable("b", initializer=tf.constant([0.0]), use_resource=True)
        loss = tf.reduce_mean(tf.square(x * w + b - y))
        optimizer = v1.train.AdagradOptimizer if adagrad else v1.train.GradientDescentOptimizer
        op = optimizer(0.5).minimize(loss, global_step=step)
        saver = v1.train.Saver(max_to_keep=3)
        with v1.Session() as session:
            newest = tf.train.latest_checkpoint(directory)
            if newest:
                saver.restore(session, newest)
            else:
                session.run(v1.global_variables_initializer())
            for _ in range(steps):
                session.run(op)
                now = session.run(step)
                if now % every == 0:
                    saver.save(session, os.path.join(directory, "model.ckpt"), global_step=step)
            return {"step": int(session.run(step)), "w": session.run(w).tolist(), "b": session.run(b).tolist()}


def read(path):
    reader = tf.train.load_checkpoint(path)
    names = reader.get_variable_to_shape_map()
    return {name: np.asarray(reader.get_tensor(name)).tolist() for name in names}


def look(directory, values=True):
    state = tf.train.get_checkpoint_state(directory)
    paths = list(state.all_model_checkpoint_paths) if state else []
    return {
        "latest": tf.train.latest_checkpoint(directory),
        "all": [os.path.basename(path) for path in paths],
        "values": {os.path.basename(path): read(path) for path in paths} if values else {},
    }


request = json.load(sys.stdin)
print(json.dumps({"train": train, "look": look}[request.pop("do")](**request)))
