# One task of a cluster of Python TensorFlow that trains until it is killed. A worker prints "warm" after its warm-up,
# starts to count at the next input line, and prints "rate STEPS_PER_SECOND": so all workers measure the same seconds. With
# the setting `turnStart`, the seconds from the first step of a turn until it counts, it can be measured again and again, and
# makes no steps between the measurements.
import argparse
import json
import os
import queue
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
        # A worker does not connect to the other workers.
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
