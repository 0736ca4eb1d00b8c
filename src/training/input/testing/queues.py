"""Queue input in Python: reads a MetaGraphDef of Shoal through its queue runners, or prints Python's order."""

import json
import sys

import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
request = json.load(sys.stdin)


def drain(session, fetch):
    coord = v1.train.Coordinator()
    session.run(v1.local_variables_initializer())
    threads = v1.train.start_queue_runners(session, coord)
    found = []
    try:
        while True:
            found.append([item.decode() for item in session.run(fetch)])
    except tf.errors.OutOfRangeError:
        pass
    coord.request_stop()
    coord.join(threads)
    return found


def imported():
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        v1.train.import_meta_graph(request["meta"])
        runners = v1.get_collection(v1.GraphKeys.QUEUE_RUNNERS)
        batches = drain(session, graph.get_tensor_by_name(request["fetch"]))
        return {
            "runners": [type(runner).__name__ for runner in runners],
            "threads": [len(runner.enqueue_ops) for runner in runners],
            "records": [record for batch in batches for record in batch],
        }


def producer():
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        queue = v1.train.string_input_producer(
            request["strings"], num_epochs=request["epochs"], seed=request["seed"]
        )
        return [name for [name] in drain(session, tf.reshape(queue.dequeue(), [1]))]


print(json.dumps(imported() if "meta" in request else producer()))
