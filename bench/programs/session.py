# Responds to {"id", "seconds"} lines with {"value": runs per second}.
import json
import sys
import threading
import time

import numpy as np
import tensorflow as tf

COUNT = 262144
graph = tf.Graph()
with graph.as_default():
    x = tf.compat.v1.placeholder(tf.float32, [COUNT])
    big = x + 1.0
    small = tf.compat.v1.placeholder(tf.float32, [])
    trivial = small + 1.0
session = tf.compat.v1.Session(graph=graph)
value = np.ones(COUNT, np.float32)

RUNS = {
    "trivial": lambda: session.run(trivial, {small: 1.0}),
    "megabyte": lambda: session.run(big, {x: value}),
}


def loop(run, until, counts):
    runs = 0
    while time.perf_counter() < until:
        run()
        runs += 1
    counts.append(runs)


def measure(name, seconds):
    run = RUNS[name.split("-")[0]]
    in_flight = 4 if name.endswith("-parallel") else 1
    counts = []
    start = time.perf_counter()
    threads = [threading.Thread(target=loop, args=(run, start + seconds, counts)) for _ in range(in_flight)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - start)


for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"value": measure(request["id"], request["seconds"])}), flush=True)
