# Loads a SavedModel and predicts once: {"dir"} -> {"ms", "first"}.
import json
import sys
import time

import tensorflow as tf

for line in sys.stdin:
    start = time.perf_counter()
    model = tf.saved_model.load(json.loads(line)["dir"])
    y = model.signatures["serving_default"](row=tf.constant(0))["y"].numpy()
    ms = (time.perf_counter() - start) * 1000
    print(json.dumps({"ms": ms, "first": float(y[0][0])}), flush=True)
    del model
