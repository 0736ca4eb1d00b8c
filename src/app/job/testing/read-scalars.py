"""Reads the event files of a directory with TensorFlow 1's iterator: for each tag the steps and values of its scalars."""
import glob
import json
import os
import sys

import tensorflow as tf

directory = json.load(sys.stdin)["directory"]
scalars = {}
for path in sorted(glob.glob(os.path.join(directory, "*tfevents*"))):
    for event in tf.compat.v1.train.summary_iterator(path):
        for value in event.summary.value:
            scalars.setdefault(value.tag, []).append([event.step, value.simple_value])
print(json.dumps(scalars))
