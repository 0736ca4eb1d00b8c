# A task of a cluster of Python TensorFlow that trains until its process is ended. It prints "warm" after a while, counts from
# when it is told "go", and prints "rate STEPS_PER_SECOND": so all workers of a cluster count the same seconds.
import argparse
import json
import os
import sys
import threading
import time

import tensorflow as tf

v1 = tf.compat.v1


class Task:
    """Starts the server that the flags tell of. A ps serves and does not come back from here."""

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
        """Trains what `build` makes: loss, step and training op."""
        device = f"/job:worker/task:{self.index}"
        with v1.device(v1.train.replica_device_setter(worker_device=device, cluster=self.cluster)):
            loss, step, train = build()
        # A worker need not hear of the other workers.
        config = v1.ConfigProto(device_filters=["/job:ps", device])
        with v1.train.MonitoredTrainingSession(
            master=self.server.target,
            is_chief=self.index == 0,
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

            warm = time.perf_counter() + self.bench["warm"]
            train_until(lambda: time.perf_counter() > warm)
            print("warm", flush=True)
            train_until(told.is_set)
            begun = time.perf_counter()
            steps = train_until(lambda: time.perf_counter() > begun + self.bench["seconds"])
            print(f"rate {steps / (time.perf_counter() - begun)}", flush=True)
            train_until(lambda: False)
