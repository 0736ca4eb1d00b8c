# One task of the recovery benchmark in Python: scenario 000's program, with a checkpoint every second in a directory that
# all tasks share. A task prints "started" when its server listens, a worker its first step with the time, and every second
# the step.
import argparse
import json
import os
import time

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()

parser = argparse.ArgumentParser()
for flag in ["--job_name", "--ps_hosts", "--worker_hosts"]:
    parser.add_argument(flag)
parser.add_argument("--task_index", type=int)
flags = parser.parse_args()
cluster = tf.train.ClusterSpec({"ps": flags.ps_hosts.split(","), "worker": flags.worker_hosts.split(",")})
server = v1.train.Server(cluster, job_name=flags.job_name, task_index=flags.task_index)
print("started", flush=True)
if flags.job_name == "ps":
    server.join()

device = f"/job:worker/task:{flags.task_index}"
with v1.device(v1.train.replica_device_setter(worker_device=device, cluster=cluster)):
    x = tf.constant((np.arange(100) * 0.6180339887 % 1).astype(np.float32))
    y = x * 0.1 + 0.3
    w = v1.Variable(tf.random.uniform([1], -1, 1), use_resource=True, name="W")
    b = v1.Variable(tf.zeros([1]), use_resource=True, name="b")
    loss = tf.reduce_mean(tf.square(w * x + b - y))
    step = v1.train.get_or_create_global_step()
    train = v1.train.AdagradOptimizer(0.01).minimize(loss, global_step=step)

with v1.train.MonitoredTrainingSession(
    master=server.target,
    is_chief=flags.task_index == 0,
    checkpoint_dir=json.loads(os.environ["BENCH"])["directory"],
    save_checkpoint_secs=1,
    save_summaries_steps=None,
    save_summaries_secs=None,
    log_step_count_steps=None,
    # A worker does not connect to the other workers.
    config=v1.ConfigProto(device_filters=["/job:ps", device]),
) as session:
    shown = None
    while True:
        _, now, _ = session.run([train, step, loss])
        if shown is None:
            print(f"first step {now} {time.time() * 1000}", flush=True)
            shown = time.time()
        elif time.time() - shown >= 1:
            shown = time.time()
            print(f"step {now}", flush=True)
