# Responds to {"rows", "steps"} with {"wall", "cpu"}, medians per step in ms, and to {"memory": true} with
# {"value": MB}.
import json
import sys
import time

import numpy as np
import tensorflow as tf

BATCH, IDS, COLUMNS = 1000, 50, 2
COUNT = BATCH * IDS
v1 = tf.compat.v1
models = {}


def model(rows):
    graph = tf.Graph()
    with graph.as_default():
        table = v1.get_variable("table", [rows, COLUMNS], initializer=v1.zeros_initializer(), use_resource=True)
        ids = v1.placeholder(tf.int64, [COUNT])
        values = v1.placeholder(tf.float32, [COUNT, 1])
        y = v1.placeholder(tf.float32, [BATCH, COLUMNS])
        logits = tf.reduce_sum(tf.reshape(tf.gather(table, ids) * values, [BATCH, IDS, COLUMNS]), 1)
        loss = tf.reduce_sum(tf.square(logits - y))
        train = v1.train.FtrlOptimizer(0.01).minimize(loss, global_step=v1.train.get_or_create_global_step())
        init = v1.global_variables_initializer()
    session = v1.Session(graph=graph)
    session.run(init)
    random = np.random.default_rng(1)
    batches = [(random.integers(0, rows, COUNT), random.random((COUNT, 1), np.float32),
                random.random((BATCH, COLUMNS), np.float32)) for _ in range(10)]
    step = session.make_callable([train, loss], [ids, values, y])
    return lambda i: step(*batches[i % len(batches)])


def measure(rows, steps):
    if rows not in models:
        models[rows] = model(rows)
    wall, cpu = [], []
    for i in range(steps):
        start, used = time.perf_counter(), time.process_time()
        models[rows](i)
        cpu.append((time.process_time() - used) * 1000)
        wall.append((time.perf_counter() - start) * 1000)
    return {"wall": sorted(wall)[steps // 2], "cpu": sorted(cpu)[steps // 2]}


def resident_mb():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmRSS"))


for line in sys.stdin:
    request = json.loads(line)
    response = {"value": resident_mb()} if request.get("memory") else measure(request["rows"], request["steps"])
    print(json.dumps(response), flush=True)
