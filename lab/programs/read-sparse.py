"""Reads a checkpoint of scenario 001 with TensorFlow: shapes, the crc32 of every tensor, collections."""
import json
import sys
import zlib

import numpy as np
import tensorflow as tf

path = json.load(sys.stdin)["path"]
reader = tf.train.load_checkpoint(path)
shapes = reader.get_variable_to_shape_map()
sums = {}
used = 0
for name in shapes:
    value = np.ascontiguousarray(reader.get_tensor(name))
    sums[name] = zlib.crc32(value.tobytes())
    if name == "weights":
        used = int(np.count_nonzero(np.any(value != 0, axis=1)))
    del value
meta = tf.compat.v1.MetaGraphDef()
with open(path + ".meta", "rb") as file:
    meta.ParseFromString(file.read())
nodes = {node.name for node in meta.graph_def.node}


def named(collection):
    """The tensors of a collection by name; None for one that is not in the graph."""
    items = meta.collection_def[collection].bytes_list.value
    return {
        key: tensor if tensor.split(":")[0] in nodes else None
        for item in items
        for key, tensor in json.loads(item.decode()).items()
    }


print(json.dumps({
    "shapes": shapes, "sums": sums, "used": used, "inputs": named("inputs"), "outputs": named("outputs"),
}))
