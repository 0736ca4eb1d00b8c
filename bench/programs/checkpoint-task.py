# One task of the checkpoint benchmark, on Python TensorFlow. The worker responds to JSON lines:
#   {"do": "train", "seconds", "saveAt": [seconds], "tail"} ->
#       {"ends": [ms], "times": [ms], "saves": [[start, end]], "pauses": []}
# It saves between two steps, as CheckpointSaverHook does. The ps and the worker share a disk, as the Saver needs.
import json
import os
import sys
import time

import tensorflow as tf

tf.compat.v1.disable_eager_execution()
v1 = tf.compat.v1
bench = json.loads(os.environ["BENCH"])
model, job = bench["model"], bench["jobName"]
server = v1.train.Server(tf.train.ClusterSpec(bench["cluster"]), job_name=job, task_index=0)
if job == "ps":
    sys.stdin.read()
    os._exit(0)

PARTS = 8
PS = "/job:ps/task:0"


def build():
    with tf.device(PS):
        step = v1.train.get_or_create_global_step()
    columns = 16 if model == "sparse" else 1024
    rows = bench["mb"] * 2**20 // PARTS // 4 // columns
    initializer = v1.random_uniform_initializer(-1, 1)

    def variable(name, shape):
        with tf.device(PS):
            return v1.get_variable(name, shape, initializer=initializer, use_resource=True)

    parts = [variable(f"part{i}", [rows, columns]) for i in range(PARTS)]
    count_step = v1.assign_add(step, 1)
    if model == "sparse":
        def update(table):
            ids = tf.random.uniform([1000 // PARTS], 0, rows, tf.int32)
            change = tf.random.uniform([1000 // PARTS, columns], -0.01, 0.01)
            with tf.device(PS):
                return table.scatter_add(tf.IndexedSlices(change, ids))
        return [count_step.op] + [update(table).op for table in parts]
    if model == "all":
        change = tf.random.uniform([], -0.01, 0.01)
        with tf.device(PS):
            return [count_step.op] + [part.assign_add(tf.fill([rows, columns], change)).op for part in parts]
    # slice, not gather: TensorFlow would treat gathered variables as sparse tables and copy them when they are read.
    row = tf.concat([tf.random.uniform([1], 0, rows, tf.int32), [0]], 0)
    with tf.device(PS):
        picked = [tf.slice(part, row, [1, columns]) for part in parts]
    features = tf.add_n(picked)
    w = variable("w", [columns, 16])
    loss = tf.reduce_mean(tf.square(features @ w))
    return [count_step.op, v1.train.GradientDescentOptimizer(0.01).minimize(loss, var_list=[w])]


with tf.device("/job:worker/task:0"):
    ops = build()
    init = v1.global_variables_initializer()
saver = v1.train.Saver(sharded=True, max_to_keep=0)
path = os.path.join(bench["directory"], "view", "model.ckpt")
os.makedirs(os.path.dirname(path), exist_ok=True)
session = v1.Session(server.target)
session.run(init)
saved = 0


def save():
    global saved
    saved += 1
    return saver.save(session, path, global_step=saved)


def train(seconds, saveAt=(), tail=0):
    ends, times, saves = [], [], []
    training_start = time.perf_counter()
    due = [training_start + at for at in saveAt]
    until = training_start + seconds
    now = training_start
    while now < until or due:
        if due and now >= due[0]:
            due.pop(0)
            save()
            after = time.perf_counter()
            saves.append([(now - training_start) * 1000, (after - training_start) * 1000])
            until = max(until, after + tail)
        start = time.perf_counter()
        session.run(ops)
        now = time.perf_counter()
        times.append((now - start) * 1000)
        ends.append((now - training_start) * 1000)
    return {"ends": ends, "times": times, "saves": saves, "pauses": []}


for line in sys.stdin:
    request = json.loads(line)
    request.pop("do")
    print(json.dumps(train(**request)), flush=True)
os._exit(0)
