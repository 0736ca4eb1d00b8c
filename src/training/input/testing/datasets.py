"""The cases of datasets.test.ts, by Python's tf.data. Prints each case's elements as JSON."""

import json
import os
import sys

import tensorflow as tf

FOLDER = json.load(sys.stdin)["folder"]
v1 = tf.compat.v1
v1.disable_eager_execution()
DS = v1.data.Dataset


def path(name):
    return os.path.join(FOLDER, name)


def plain(value):
    if isinstance(value, v1.SparseTensorValue):
        return {
            "indices": value.indices.tolist(),
            "values": plain(value.values),
            "denseShape": value.dense_shape.tolist(),
        }
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in value}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("latin1")
    listed = value.tolist()

    def text(item):
        if isinstance(item, list):
            return [text(one) for one in item]
        return item.decode("latin1") if isinstance(item, bytes) else item

    return text(listed)


FEATURES = {
    "label": tf.io.FixedLenFeature([], tf.float32),
    "ids": tf.io.VarLenFeature(tf.int64),
    "values": tf.io.VarLenFeature(tf.float32),
    "name": tf.io.FixedLenFeature([], tf.string, default_value="nobody"),
    "pair": tf.io.FixedLenFeature([2], tf.int64, default_value=[7, 7]),
    "steps": tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True),
}

x = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
ragged = lambda: DS.range(1, 6).map(lambda n: tf.fill([n], n))


def sparse_of(n):
    return tf.SparseTensor(tf.reshape(n, [1, 1]), tf.reshape(n * 10, [1]), tf.constant([9], tf.int64))


CASES = {
    "slices": lambda: DS.from_tensor_slices({"x": x, "y": [1, 2, 3]}),
    "tensors": lambda: DS.from_tensors(("a", [1.0, 2.0])),
    "range": lambda: DS.range(3, 20, 4),
    "map": lambda: DS.range(5).map(lambda n: {"twice": n * 2, "square": n * n}),
    "parallel map": lambda: DS.range(50).map(lambda n: n * n, num_parallel_calls=4),
    "filter": lambda: DS.range(20).filter(lambda n: tf.equal(n % 3, 1)),
    "shuffle": lambda: DS.range(40).shuffle(7, seed=11),
    "shuffle repeated": lambda: DS.range(10).shuffle(10, seed=3).repeat(3),
    "shuffle the same": lambda: DS.range(10).shuffle(10, seed=3, reshuffle_each_iteration=False).repeat(2),
    "repeat": lambda: DS.range(3).repeat(3),
    "batch": lambda: DS.range(10).batch(4),
    "batch, drop remainder": lambda: DS.range(10).batch(4, drop_remainder=True),
    "parallel batch": lambda: DS.range(10).batch(4, num_parallel_calls=2),
    "padded": lambda: ragged().padded_batch(2, padded_shapes=[None]),
    "padded to a given shape": lambda: ragged().padded_batch(
        3, padded_shapes=[6], padding_values=tf.constant(-1, tf.int64)
    ),
    "interleave": lambda: DS.range(4).interleave(
        lambda n: DS.range(3).map(lambda m: n * 10 + m), cycle_length=2, block_length=2
    ),
    "parallel interleave": lambda: DS.range(6).interleave(
        lambda n: DS.range(3).map(lambda m: n * 10 + m), cycle_length=3, num_parallel_calls=3
    ),
    "flat map": lambda: DS.range(4).flat_map(lambda n: DS.range(n)),
    "take and skip": lambda: DS.range(20).skip(5).take(4),
    "shard": lambda: DS.range(20).shard(3, 1),
    "concatenate": lambda: DS.range(3).concatenate(DS.range(10, 12)),
    "zip": lambda: DS.zip((DS.range(3), {"a": DS.range(10, 20)})),
    "unbatch": lambda: DS.range(5).batch(2).unbatch(),
    "unique": lambda: DS.range(8).map(lambda n: n % 3).unique(),
    "take while": lambda: DS.range(8).take_while(lambda n: n < 5),
    "prefetch": lambda: DS.range(5).prefetch(2),
    "sparse": lambda: DS.range(3).map(lambda n: {"s": sparse_of(n), "n": n}),
    "sparse batch": lambda: DS.range(5).map(sparse_of).batch(2),
    "files": lambda: DS.list_files(path("r-*.tfrecord"), shuffle=False),
    "files shuffled": lambda: DS.list_files(path("l-*.txt"), shuffle=True, seed=5),
    "tfrecord": lambda: v1.data.TFRecordDataset([path("r-0.tfrecord"), path("r-1.tfrecord")]),
    "tfrecord gzip": lambda: v1.data.TFRecordDataset(path("r.gz"), compression_type="GZIP"),
    "tfrecord zlib": lambda: v1.data.TFRecordDataset(path("r.zlib"), compression_type="ZLIB"),
    "text": lambda: v1.data.TextLineDataset([path("l-0.txt"), path("l-1.txt")]),
    "fixed": lambda: v1.data.FixedLengthRecordDataset(
        path("fixed.bin"), record_bytes=4, header_bytes=3, footer_bytes=2
    ),
    "csv": lambda: v1.data.experimental.CsvDataset(
        path("t.csv"),
        [tf.float32, tf.constant([-1], tf.int64), tf.string],
        header=True,
    ),
    "csv selected": lambda: v1.data.experimental.CsvDataset(
        path("t.csv"), [tf.constant([5.0], tf.float32), tf.string], header=True, select_cols=[0, 2], na_value="NA"
    ),
    "examples": lambda: v1.data.TFRecordDataset(path("e.tfrecord"))
    .batch(3)
    .apply(v1.data.experimental.parse_example_dataset(FEATURES, num_parallel_calls=2)),
    "examples by op": lambda: v1.data.TFRecordDataset(path("e.tfrecord"))
    .batch(3)
    .map(lambda s: tf.io.parse_example(s, FEATURES)),
    "examples one by one": lambda: v1.data.TFRecordDataset(path("e.tfrecord")).map(
        lambda s: tf.io.parse_single_example(
            s, {"label": FEATURES["label"], "ids": FEATURES["ids"]}
        )
    ),
}


def elements(make):
    with tf.Graph().as_default():
        iterator = v1.data.make_initializable_iterator(make())
        following = iterator.get_next()
        found = []
        with v1.Session() as session:
            session.run(iterator.initializer)
            while True:
                try:
                    found.append(plain(session.run(following)))
                except tf.errors.OutOfRangeError:
                    return found


print(json.dumps({name: elements(make) for name, make in CASES.items()}))
