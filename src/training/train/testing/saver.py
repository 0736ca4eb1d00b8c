"""Reads a checkpoint or the checksums of its tensors, or saves the test's model in several ways with TensorFlow's Saver."""
import hashlib
import json
import os
import sys

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()


def plain(value):
    if value.dtype == object:
        return [item.decode() for item in value.tolist()]
    return value.tolist()


def read(path):
    reader = tf.train.load_checkpoint(path)
    return {name: plain(np.asarray(reader.get_tensor(name))) for name in reader.get_variable_to_shape_map()}


def digest(path):
    reader = tf.train.load_checkpoint(path)
    names = reader.get_variable_to_shape_map()
    return {name: hashlib.sha256(np.ascontiguousarray(reader.get_tensor(name)).tobytes()).hexdigest() for name in names}


def write(directory):
    paths = []
    for name in ["plain", "sharded", "parts"]:
        os.makedirs(os.path.join(directory, name))
    values = None
    for name, sharded, parts in [("plain", False, 1), ("sharded", True, 1), ("parts", True, 3)]:
        graph = tf.Graph()
        with graph.as_default():
            v1.set_random_seed(5)
            step = v1.train.get_or_create_global_step()
            w = v1.get_variable("w", [3, 4], use_resource=True)
            table = v1.get_variable(
                "table", [10, 2], use_resource=True, partitioner=v1.fixed_size_partitioner(parts)
            )
            words = v1.Variable([b"eins", b"", b"two"], name="words", trainable=False, use_resource=True)
            v1.Variable([False, True], name="flags", trainable=False, use_resource=True)
            loss = tf.reduce_sum(tf.square(w)) + tf.reduce_sum(tf.square(tf.convert_to_tensor(table)))
            train = v1.train.AdagradOptimizer(0.1).minimize(loss, global_step=step)
            saver = v1.train.Saver(sharded=sharded)
            with v1.Session(graph=graph) as session:
                session.run(v1.global_variables_initializer())
                if values is not None:
                    session.run([
                        w.assign(values["w"]),
                        *[part.assign(np.array(values["table"], np.float32)[o:o + n]) for part, o, n in slices(table)],
                    ])
                for _ in range(2 if values is None else 0):
                    session.run(train)
                slot = [v for v in v1.global_variables() if v.name.startswith("w/Adagrad")][0]
                if values is not None:
                    session.run(slot.assign(values["w/Adagrad"]))
                values = values or {
                    "w": session.run(w).tolist(),
                    "w/Adagrad": session.run(slot).tolist(),
                    "table": session.run(tf.convert_to_tensor(table)).tolist(),
                    "words": ["eins", "", "two"],
                }
                paths.append(saver.save(session, os.path.join(directory, name, "model.ckpt"), global_step=2))
    return {"paths": paths, "values": values}


def slices(table):
    offset = 0
    for part in list(table) if hasattr(table, "__iter__") and not isinstance(table, tf.Variable) else [table]:
        rows = part.shape[0]
        yield part, offset, rows
        offset += rows


request = json.load(sys.stdin)
[(what, path)] = request.items()
print(json.dumps({"read": read, "digest": digest, "write": write}[what](path)))
