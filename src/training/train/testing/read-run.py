"""Reads the output directory of a chief: event files with TensorBoard's and TensorFlow's readers, and the graph as text."""
import glob
import json
import os
import sys

import tensorflow as tf
from google.protobuf import text_format
from tensorboard.backend.event_processing import event_accumulator

directory = json.load(sys.stdin)["directory"]
accumulator = event_accumulator.EventAccumulator(directory)
accumulator.Reload()
tags = accumulator.Tags()
statuses = []
for path in sorted(glob.glob(os.path.join(directory, "*tfevents*"))):
    for event in tf.compat.v1.train.summary_iterator(path):
        if event.HasField("session_log"):
            log = event.session_log
            statuses.append([log.SessionStatus.Name(log.status), event.step, os.path.basename(log.checkpoint_path)])

with open(os.path.join(directory, "graph.pbtxt")) as file:
    from_text = text_format.Parse(file.read(), tf.compat.v1.GraphDef())
# TensorBoard has its own class for the same message.
in_events = tf.compat.v1.GraphDef.FromString(accumulator.Graph().SerializeToString())
graph = tf.Graph()
with graph.as_default():
    tf.import_graph_def(from_text, name="")

print(json.dumps({
    "scalars": {tag: [[e.step, e.value] for e in accumulator.Scalars(tag)] for tag in tags["scalars"]},
    "hasMetaGraph": tags["meta_graph"],
    "statuses": statuses,
    "nodes": [node.name for node in from_text.node],
    "isSameGraph": from_text == in_events,
    "operations": len(graph.get_operations()),
}))
