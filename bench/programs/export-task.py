# One task of the export benchmark, on Python TensorFlow. The tasks share a disk, as its builder needs. The worker
# responds to JSON lines:
#   {"do": "export", "target"} -> {"ms", "syncedMs", "cpuMs"}; `syncedMs` includes flushing the files to the disk
import json
import os
import sys
import time

import tensorflow as tf

tf.compat.v1.disable_eager_execution()
v1 = tf.compat.v1
bench = json.loads(os.environ["BENCH"])
job, index = bench["jobName"], bench["taskIndex"]
server = v1.train.Server(tf.train.ClusterSpec(bench["cluster"]), job_name=job, task_index=index)
if job == "ps":
    sys.stdin.read()
    os._exit(0)

PARTS = 8
COLUMNS = 1024
rows = bench["mb"] * 2**20 // PARTS // 4 // COLUMNS
with tf.device("/job:worker/task:0"):
    with tf.device("/job:ps/task:0"):
        v1.train.get_or_create_global_step()
    row = v1.placeholder(tf.int32, [], name="row")
    parts = []
    for i in range(PARTS):
        with tf.device(f"/job:ps/task:{i % 2}"):
            parts.append(v1.get_variable(f"part{i}", [rows, COLUMNS], use_resource=True,
                                         initializer=v1.random_uniform_initializer(-1, 1)))
    begin = tf.stack([row, 0])
    y = tf.add_n([tf.slice(part, begin, [1, COLUMNS]) for part in parts])
    init = v1.global_variables_initializer()
session = v1.Session(server.target)
session.run(init)
signature = v1.saved_model.predict_signature_def({"row": row}, {"y": y})


def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


for line in sys.stdin:
    target = json.loads(line)["target"]
    start, cpu = time.perf_counter(), time.process_time()
    builder = v1.saved_model.Builder(target)
    builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature}, clear_devices=True)
    builder.save()
    ms = (time.perf_counter() - start) * 1000
    cpu_ms = (time.process_time() - cpu) * 1000
    for directory, _, files in os.walk(target):
        for path in [*(os.path.join(directory, file) for file in files), directory]:
            sync(path)
    synced_ms = (time.perf_counter() - start) * 1000
    print(json.dumps({"ms": ms, "syncedMs": synced_ms, "cpuMs": cpu_ms}), flush=True)
os._exit(0)
