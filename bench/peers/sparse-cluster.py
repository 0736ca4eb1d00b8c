# One task of the sparse cluster benchmark: the model of scenario 001 from TFRecord files. A worker trains until it is
# ended. It prints "warm" when it has trained for a while, counts from when it is told "go", and prints "rate STEPS_PER_SECOND".
import argparse
import json
import os
import sys
import threading
import time

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

FEATURES = {
    "label": tf.io.FixedLenFeature([], tf.float32),
    "ids": tf.io.VarLenFeature(tf.int64),
    "values": tf.io.VarLenFeature(tf.float32),
}


def build():
    step = v1.train.get_or_create_global_step()
    dataset = tf.data.TFRecordDataset(bench["files"][flags.task_index], buffer_size=256 << 10)
    dataset = dataset.shuffle(10_000).repeat().batch(bench["batch"], drop_remainder=True)
    dataset = dataset.map(lambda records: tf.io.parse_example(records, FEATURES)).prefetch(2)
    iterator = v1.data.make_initializable_iterator(dataset)
    v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    row = iterator.get_next()
    weights = v1.get_variable("weights", [bench["features"], 2], initializer=v1.zeros_initializer(), use_resource=True,
                              partitioner=v1.fixed_size_partitioner(cluster.num_tasks("ps")))
    bias = v1.get_variable("bias", [2], initializer=v1.zeros_initializer(), use_resource=True)
    logits = v1.nn.embedding_lookup_sparse(weights, row["ids"], row["values"], combiner="sum",
                                           partition_strategy="div") + bias
    loss = v1.losses.sparse_softmax_cross_entropy(tf.cast(row["label"], tf.int64), logits)
    return loss, step, v1.train.FtrlOptimizer(0.01).minimize(loss, global_step=step)


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
