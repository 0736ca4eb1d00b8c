"""Prints the values of a checkpoint, by variable."""

import json
import sys

import tensorflow as tf

reader = tf.train.load_checkpoint(sys.argv[1])
names = reader.get_variable_to_shape_map()
print(json.dumps({name: reader.get_tensor(name).tolist() for name in names}))
