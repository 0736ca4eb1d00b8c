# One task of a cluster that trains until it is killed, a program of Python TensorFlow: `training-task.mjs` is the same on
# Shoal. A worker prints "model VARIABLES AND OPS", and "warm" after its warm-up. It starts to count at the next input line,
# and prints "rate STEPS_PER_SECOND": so all workers measure the same seconds. With the setting `turnStart`, the seconds from
# the first step of a turn until it counts, it can be measured again and again, and makes no steps between the measurements.
# With the setting `checkpoints` the chief saves, and writes event files; all tasks share its directory.
import argparse
import json
import os
import queue
import re
import sys
import threading
import time

import tensorflow as tf

v1 = tf.compat.v1


class Task:
    """Starts the server that the flags describe. On a ps the constructor does not return."""

    def __init__(self):
        v1.disable_eager_execution()
        parser = argparse.ArgumentParser()
        for flag in ["--job_name", "--ps_hosts", "--worker_hosts"]:
            parser.add_argument(flag)
        parser.add_argument("--task_index", type=int)
        flags = parser.parse_args()
        self.index = flags.task_index
        self.bench = json.loads(os.environ["BENCH"])
        self.cluster = tf.train.ClusterSpec({"ps": flags.ps_hosts.split(","), "worker": flags.worker_hosts.split(",")})
        self.server = v1.train.Server(self.cluster, job_name=flags.job_name, task_index=self.index)
        if flags.job_name == "ps":
            self.server.join()

    def train(self, build):
        """Trains the model of `build`, which returns the loss, the global step and the training op."""
        device = f"/job:worker/task:{self.index}"
        with v1.device(v1.train.replica_device_setter(worker_device=device, cluster=self.cluster)):
            loss, step, train = build()
        variables = [f"[{','.join(map(str, v.shape))}] {v.device}" for v in v1.global_variables()]
        ops = [op.type for op in v1.get_default_graph().get_operations() if re.search("Apply|Gather", op.type)]
        print("model", json.dumps([variables, sorted(ops)]), flush=True)
        with v1.train.MonitoredTrainingSession(
            master=self.server.target,
            is_chief=self.index == 0,
            checkpoint_dir="train_logs" if self.bench.get("checkpoints") else None,
        ) as session:
            lines = queue.Queue()
            threading.Thread(target=lambda: [lines.put(line) for line in sys.stdin], daemon=True).start()

            def train_until(is_over):
                steps = 0
                while not is_over():
                    session.run([train, step, loss])
                    steps += 1
                return steps

            def train_for(seconds):
                end = time.perf_counter() + seconds
                return train_until(lambda: time.perf_counter() > end)

            train_for(self.bench["warm"])
            while True:
                print("warm", flush=True)
                if "turnStart" in self.bench:
                    lines.get()
                    train_for(self.bench["turnStart"])
                else:
                    train_until(lambda: not lines.empty())
                    lines.get()
                start = time.perf_counter()
                steps = train_for(self.bench["seconds"])
                print(f"rate {steps / (time.perf_counter() - start)}", flush=True)
