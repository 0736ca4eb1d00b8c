"""TensorFlow's ids for words inside and outside a vocabulary."""
import json
import sys

import tensorflow.compat.v1 as tf

request = json.load(sys.stdin)
with tf.Graph().as_default(), tf.Session() as session:
    strings = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(["emerson", "lake"], tf.constant([0, 1], tf.int64)), 3)
    ints = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2], tf.int64), tf.constant([0, 1], tf.int64)), 4)
    found = [strings.lookup(tf.constant(request["words"])), ints.lookup(tf.constant([1, 5, 6], tf.int64))]
    session.run(tf.tables_initializer())
    a, b = session.run(found)
print(json.dumps({"strings": a.tolist(), "ints": b.tolist()}))
