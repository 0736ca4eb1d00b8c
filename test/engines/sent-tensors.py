"""The tensors that TensorFlow's own partitioner sends between tasks in a run: the tasks are devices of one process."""

import base64
import json
import sys

import tensorflow as tf

tf1 = tf.compat.v1
tf1.disable_eager_execution()


def config(tasks):
    """Every task is a device; no optimization, which would divide the ops in another way."""
    options = tf1.ConfigProto(device_count={'CPU': tasks})
    options.graph_options.optimizer_options.opt_level = tf1.OptimizerOptions.L0
    options.graph_options.rewrite_options.disable_meta_optimizer = True
    return options


def sent(question):
    """Pairs of the name of a tensor and the task that receives it."""
    tasks = question['tasks']
    definition = tf1.GraphDef.FromString(base64.b64decode(question['graph']))
    for node in definition.node:
        node.device = f'/device:CPU:{tasks.index(node.device) if node.device else 0}'
    with tf1.Graph().as_default() as graph:
        tf1.import_graph_def(definition, name='')
        with tf1.Session(graph=graph, config=config(len(tasks))) as session:
            session.run([graph.get_operation_by_name(name) for name in question['init']])
            metadata = tf1.RunMetadata()
            wanted = question['fetches'] + [graph.get_operation_by_name(name) for name in question['targets']]
            session.run(wanted, options=tf1.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    found = set()
    for part in metadata.partition_graphs:
        for node in part.node:
            if node.op == '_Send':
                device = int(node.attr['recv_device'].s.decode().rsplit(':', 1)[1])
                name, _, index = node.input[0].partition(':')
                found.add((f'{name}:{index or 0}', tasks[device]))
    return sorted(found)


print(json.dumps([sent(question) for question in json.load(sys.stdin)]))
