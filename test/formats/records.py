"""Writes records, examples and events with TensorFlow (`write DIR`), or reads those of Shoal (`read DIR`)."""

import glob
import hashlib
import json
import sys

import numpy as np
import tensorflow as tf
from tensorboard.backend.event_processing import event_accumulator, event_file_loader

COMPRESSIONS = {'none': '', 'gzip': 'GZIP', 'zlib': 'ZLIB'}


def digest(data):
    return hashlib.sha256(data).hexdigest()


def list_of(**kinds):
    return tf.train.Feature(**kinds)


def floats(*values):
    return list_of(float_list=tf.train.FloatList(value=values))


def ints(*values):
    return list_of(int64_list=tf.train.Int64List(value=values))


def texts(*values):
    return list_of(bytes_list=tf.train.BytesList(value=values))


def example():
    return tf.train.Example(features=tf.train.Features(feature={
        'label': floats(1.0),
        'ids': ints(0, 1, 127, 128, 2**32, 2**53 + 1, 2**63 - 1, -1, -(2**63)),
        'values': floats(0.5, -2.25, 3e38),
        'names': texts(b'', b'\x00\xff', 'Zürich'.encode()),
        'nothing': list_of(),
        'none': floats(),
    }))


def sequence_example():
    return tf.train.SequenceExample(
        context=tf.train.Features(feature={'length': ints(2)}),
        feature_lists=tf.train.FeatureLists(feature_list={
            'words': tf.train.FeatureList(feature=[texts(b'a', b'b'), texts(b'c')]),
            'empty': tf.train.FeatureList(feature=[]),
        }),
    )


def plain(feature):
    kind = feature.WhichOneof('kind')
    if kind is None:
        return None
    values = getattr(feature, kind).value
    if kind == 'bytes_list':
        return [kind, [value.hex() for value in values]]
    if kind == 'int64_list':
        return [kind, [str(value) for value in values]]
    return [kind, list(values)]


def plain_features(features):
    return {name: plain(feature) for name, feature in features.feature.items()}


def records():
    random = np.random.RandomState(11)
    sizes = [0, 1, 11, 12, 4096, 300_000, 1_500_000, *random.randint(0, 2000, 500)]
    return [random.bytes(size) for size in sizes]


def write(root):
    data = records()
    for name, kind in COMPRESSIONS.items():
        with tf.io.TFRecordWriter(f'{root}/theirs.{name}', kind) as writer:
            for record in data:
                writer.write(record)
    writer = tf.summary.create_file_writer(f'{root}/theirs-events')
    with writer.as_default():
        for step in range(5):
            tf.summary.scalar('loss', 1.0 / (step + 1), step=step)
        tf.summary.histogram('weights', tf.range(100, dtype=tf.float32), step=5)
    writer.close()
    words = tf.data.Dataset.range(5000).map(lambda i: tf.strings.join(['record number ', tf.strings.as_string(i)]))
    for _ in words.snapshot(f'{root}/snapshot', compression='SNAPPY'):
        pass
    print(json.dumps({
        'records': [digest(record) for record in data],
        'example': example().SerializeToString().hex(),
        'sequence': sequence_example().SerializeToString().hex(),
        'events': glob.glob(f'{root}/theirs-events/*')[0],
        'snappy': sorted(glob.glob(f'{root}/snapshot/*/*/*/*.snapshot')),
    }))


def read(root):
    result = {'records': {}, 'events': []}
    for name, kind in COMPRESSIONS.items():
        dataset = tf.data.TFRecordDataset(f'{root}/ours.{name}', compression_type=kind)
        result['records'][name] = [digest(record) for record in dataset.as_numpy_iterator()]
    with open(f'{root}/ours.example', 'rb') as file:
        result['example'] = plain_features(tf.train.Example.FromString(file.read()).features)
    with open(f'{root}/ours.sequence', 'rb') as file:
        parsed = tf.train.SequenceExample.FromString(file.read())
    result['context'] = plain_features(parsed.context)
    result['lists'] = {
        name: [plain(feature) for feature in one.feature] for name, one in parsed.feature_lists.feature_list.items()}
    [path] = glob.glob(f'{root}/ours-events/*')
    for event in event_file_loader.EventFileLoader(path).Load():
        result['events'].append([event.step, event.file_version, [value.tag for value in event.summary.value]])
    accumulator = event_accumulator.EventAccumulator(f'{root}/ours-events')
    accumulator.Reload()
    result['scalars'] = [[one.step, one.value] for one in accumulator.Scalars('loss')]
    result['histogram'] = accumulator.Histograms('weights')[0].histogram_value.num
    print(json.dumps(result))


if sys.argv[1] == 'write':
    write(sys.argv[2])
else:
    read(sys.argv[2])
