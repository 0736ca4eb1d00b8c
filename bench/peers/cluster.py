# One task of the cluster benchmark. A worker trains until it is ended. It prints "warm" when it has trained for a
# while, counts from when it is told "go", and prints "rate STEPS_PER_SECOND": so all workers count the same seconds.
import argparse
import json
import os
import sys
import threading
import time

import numpy as np
import tensorflow as tf

tf.compat.v1.disable_eager_execution()
v1 = tf.compat.v1
parser = argparse.ArgumentParser()
for flag in ["--job_name", "--ps_hosts", "--worker_hosts"]:
    parser.add_argument(flag)
parser.add_argument("--task_index", type=int)
flags = parser.parse_args()
bench = json.loads(os.environ["BENCH"])
cluster = tf.train.ClusterSpec({"ps": flags.ps_hosts.split(","), "worker": flags.worker_hosts.split(",")})
server = v1.train.Server(cluster, job_name=flags.job_name, task_index=flags.task_index)
if flags.job_name == "ps":
    server.join()


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


with v1.device(v1.train.replica_device_setter(worker_device=f"/job:worker/task:{flags.task_index}", cluster=cluster)):
    loss, step, train = build()

# A worker need not hear of the other workers.
config = v1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{flags.task_index}"])
with v1.train.MonitoredTrainingSession(
    master=server.target,
    is_chief=flags.task_index == 0,
    checkpoint_dir=None,
    save_summaries_steps=None,
    save_summaries_secs=None,
    log_step_count_steps=None,
    config=config,
) as session:

    told = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), told.set()), daemon=True).start()

    def train_until(over):
        steps = 0
        while not over():
            session.run([train, step, loss])
            steps += 1
        return steps

    warm = time.perf_counter() + bench["warm"]
    train_until(lambda: time.perf_counter() > warm)
    print("warm", flush=True)
    train_until(told.is_set)
    begun = time.perf_counter()
    steps = train_until(lambda: time.perf_counter() > begun + bench["seconds"])
    print(f"rate {steps / (time.perf_counter() - begun)}", flush=True)
    train_until(lambda: False)
