"""Runs training cases with Python TensorFlow: cases as JSON on stdin, results as JSON on stdout."""
import json
import sys

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.enable_resource_variables()


def floats(value):
    """Nested lists; non-finite numbers become strings."""
    def plain(x):
        if isinstance(x, list):
            return [plain(one) for one in x]
        return x if np.isfinite(x) else "NaN" if np.isnan(x) else "Infinity" if x > 0 else "-Infinity"
    return plain(np.asarray(value, np.float64).tolist())


def gradients_case(case):
    """Trains a dense and a sparse variable with one of TensorFlow 1's optimizers."""
    data = case["data"]
    with tf.Graph().as_default():
        dtype = tf.as_dtype(case.get("dtype", "float32"))
        w = v1.get_variable("w", dtype=dtype, initializer=tf.constant(data["w"], dtype))
        b = v1.get_variable("b", dtype=dtype, initializer=tf.constant(data["b"], dtype))
        table = v1.get_variable("table", dtype=dtype, initializer=tf.constant(data["table"], dtype))
        x, y = (v1.placeholder(dtype, np.shape(data["batches"][0][name])) for name in ("x", "y"))
        u, z = (v1.placeholder(dtype, np.shape(data["batches"][0][name])) for name in ("u", "z"))
        ids = v1.placeholder(tf.int64, [len(data["batches"][0]["ids"])])
        dense = tf.reduce_sum(tf.square(w * x + b - y))
        sparse = tf.reduce_sum(tf.square(tf.gather(table, ids) * u - z))
        step = v1.train.get_or_create_global_step()
        if "parts" in case:
            trained = [w, b, table]
            gradients = tf.gradients(dense + sparse, trained)
            of = {v.op.name: (g, v) for g, v in zip(gradients, trained)}
            with tf.control_dependencies(gradients):
                updates = [getattr(v1.train, part["optimizer"])(**part["arguments"]).apply_gradients(
                    [of[name] for name in part["variables"]]) for part in case["parts"]]
            with tf.control_dependencies(updates):
                train = step.assign_add(1)
        else:
            optimizer = getattr(v1.train, case["optimizer"])(**case["arguments"])
            train = optimizer.minimize(dense + sparse, global_step=step)
        variables = {v.op.name: v for v in v1.global_variables()}
        history = []
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for batch in data["batches"]:
                feeds = {x: batch["x"], y: batch["y"], u: batch["u"], z: batch["z"], ids: batch["ids"]}
                session.run(train, feeds)
                history.append({k: floats(v) for k, v in session.run(variables).items()})
        return {"history": history, "slots": None if "parts" in case else optimizer.get_slot_names()}


def keras_case(case):
    """The same with a Keras optimizer, eagerly.

    Keras squares the rows of a sparse gradient one by one, also where a row repeats, so its second moments
    depend on how a gradient is written down. It is given dense gradients here, whose rows are summed.
    """
    data = case["data"]
    w, b, table = (tf.Variable(np.asarray(data[name], np.float32), name=name) for name in ("w", "b", "table"))
    optimizer = getattr(tf.keras.optimizers, case["optimizer"])(**case["arguments"])
    history = []
    for batch in data["batches"]:
        x, y, u, z = (np.asarray(batch[name], np.float32) for name in ("x", "y", "u", "z"))
        with tf.GradientTape() as tape:
            dense = tf.reduce_sum(tf.square(w * x + b - y))
            sparse = tf.reduce_sum(tf.square(tf.gather(table, batch["ids"]) * u - z))
            loss = dense + sparse
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, [w, b, table])]
        optimizer.apply_gradients(zip(gradients, [w, b, table]))
        slots = {v.path: v for v in optimizer.variables}
        history.append({"w": floats(w), "b": floats(b), "table": floats(table),
                        **{k: floats(v) for k, v in slots.items()}})
    return {"history": history}


def names_case(case):
    """The names of a model's variables, and the slices of partitions."""
    with tf.Graph().as_default():
        w = v1.get_variable("w", [4, 2])
        p = v1.get_variable("p", [5, 2], partitioner=v1.fixed_size_partitioner(2))
        loss = tf.reduce_sum(tf.square(w)) + tf.reduce_sum(tf.nn.embedding_lookup(p, [0, 1]))
        step = v1.train.get_or_create_global_step()
        trained = []
        def train():
            for _ in range(case["times"]):
                trained.append(getattr(v1.train, case["optimizer"])(**case["arguments"]).minimize(
                    loss, global_step=step).name)
        if case.get("scope"):
            with v1.variable_scope(case["scope"]):
                train()
        else:
            train()
        slices = {}
        for v in v1.global_variables():
            info = v._save_slice_info
            if info:
                slices[v.op.name] = [info.full_name, *(
                    [int(d) for d in l] for l in (info.full_shape, info.var_offset, info.var_shape))]
        return {"names": [v.op.name for v in v1.global_variables()], "slices": slices, "trained": trained}


def schedule_case(case):
    """A learning-rate schedule at some steps."""
    with tf.Graph().as_default():
        step = v1.placeholder(tf.int64, [])
        arguments = dict(case["arguments"])
        arguments["x" if case["schedule"] == "piecewise_constant" else "global_step"] = step
        rate = getattr(v1.train, case["schedule"])(**arguments)
        with v1.Session() as session:
            return [float(session.run(rate, {step: at})) for at in case["steps"]]


def clip_case(case):
    """Clips gradients; a list [values, ids] represents IndexedSlices."""
    with tf.Graph().as_default(), v1.Session() as session:
        given = [None if g is None else
                 tf.IndexedSlices(tf.constant(g["values"], tf.float32), tf.constant(g["ids"]), tf.constant([9, 2]))
                 if isinstance(g, dict) else tf.constant(g, tf.float32) for g in case["gradients"]]
        values = lambda g: g.values if isinstance(g, tf.IndexedSlices) else g
        how = case["how"]
        if how == "value":
            made = [tf.clip_by_value(g, *case["arguments"]) for g in given if g is not None]
        elif how == "norm":
            made = [tf.clip_by_norm(g, *case["arguments"], axes=case.get("axes")) for g in given if g is not None]
        else:
            made, norm = tf.clip_by_global_norm(given, *case["arguments"])
            made = [g for g in made if g is not None] + [norm]
        return [floats(session.run(values(g))) for g in made]


def average_case(case):
    """Moving averages of a variable that is set to given values, and of a tensor."""
    with tf.Graph().as_default():
        w = v1.get_variable("w", initializer=tf.constant(case["first"], tf.float32))
        p = v1.get_variable("p", initializer=tf.constant([[1.0], [2.0], [3.0]]),
                            partitioner=v1.fixed_size_partitioner(2))
        value = v1.placeholder(tf.float32, np.shape(case["first"]))
        doubled = tf.multiply(w, 2.0, name="doubled")
        step = v1.train.get_or_create_global_step()
        average = tf.train.ExponentialMovingAverage(
            case["decay"], num_updates=step if case["counted"] else None, zero_debias=case["zeroDebias"])
        set_w = tf.group(w.assign(value), step.assign_add(1))
        averaged = [w, doubled] + list(p)
        update = average.apply(averaged)
        shown = {v.op.name: v for v in v1.global_variables()}
        history = []
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for one in case["values"]:
                session.run(set_w, {value: one})
                session.run(update)
                history.append({k: floats(v) for k, v in session.run(shown).items()})
        restore = {k: v.op.name for k, v in average.variables_to_restore().items()}
        return {"history": history, "names": list(shown), "restore": restore}


KINDS = {"gradients": gradients_case, "keras": keras_case, "names": names_case,
         "schedule": schedule_case, "clip": clip_case, "average": average_case}

cases = json.load(sys.stdin)
print(json.dumps({name: KINDS[case["kind"]](case) for name, case in cases.items()}))
