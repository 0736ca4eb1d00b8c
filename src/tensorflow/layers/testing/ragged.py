"""TensorFlow's tf.ragged, tf.sparse and tf.strings: the values of expressions, and gradients. Keys are names of cases."""

import json

import numpy as np
import tensorflow as tf


def plain(value):
    if isinstance(value, tf.SparseTensor):
        return [plain(value.indices), plain(value.values), plain(value.dense_shape)]
    if isinstance(value, tf.RaggedTensor):
        return [plain(value.flat_values)] + [plain(splits) for splits in value.nested_row_splits]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    array = np.asarray(value)
    if array.dtype == object:
        return json.loads(json.dumps(array.tolist(), default=lambda item: item.decode()))
    return json.loads(json.dumps(array.tolist()).replace('NaN', '"nan"'))


rows = tf.ragged.constant([[1.0, 2.0], [], [3.0, 4.0, 5.0]])
deep = tf.ragged.constant([[[1, 2], []], [], [[3], [4, 5, 6], [7]]], dtype=tf.int32)
words = tf.ragged.constant([['a', 'b', 'c'], [], ['d']])
sparse = tf.SparseTensor([[0, 1], [1, 0], [1, 2]], [1.0, -2.0, 3.0], [3, 3])
other = tf.SparseTensor([[0, 1], [2, 2]], [5.0, 7.0], [3, 3])
dense = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
names = tf.sparse.from_dense([['a', ''], ['b', 'c'], ['', '']])
ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.constant([2, 0, 2], tf.int64), [3, 2])


def gradient(make, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = make(x)
        factors = tf.cast(tf.reshape(tf.range(1, tf.size(y) + 1), tf.shape(y)), tf.float32)
        loss = tf.reduce_sum(y * factors)
    return tf.convert_to_tensor(tape.gradient(loss, x))


with_values = lambda values: tf.SparseTensor(sparse.indices, values, sparse.dense_shape)
values = {
    'constant': deep,
    'row lengths': rows.row_lengths(),
    'value rowids': rows.value_rowids(),
    'nrows': rows.nrows(),
    'to tensor': rows.to_tensor(),
    'to tensor, default': words.to_tensor('-'),
    'to tensor, deep': deep.to_tensor(9),
    'to sparse': words.to_sparse(),
    'to sparse, deep': deep.to_sparse(),
    'from row lengths': tf.RaggedTensor.from_row_lengths(tf.range(4), [1, 0, 3]),
    'from value rowids': tf.RaggedTensor.from_value_rowids([1, 2, 3], [0, 2, 2], 5),
    'from sparse': tf.RaggedTensor.from_sparse(names),
    'map': tf.ragged.map_flat_values(tf.square, rows),
    'sum': tf.reduce_sum(rows, 1),
    'mean': tf.reduce_mean(rows, 1),
    'max': tf.reduce_max(rows, 1),
    'min': tf.reduce_min(rows, 1),
    'prod': tf.reduce_prod(rows, 1),
    'deep sum': tf.reduce_sum(deep, 2),
    'gradient of to tensor': gradient(lambda x: rows.with_values(x).to_tensor(), rows.values),
    'gradient of mean': gradient(lambda x: tf.reduce_sum(tf.RaggedTensor.from_row_lengths(x, [2, 3]), 1), rows.values),
    'from dense': tf.sparse.from_dense([[0, 3], [4, 0]]),
    'from dense words': names,
    'to dense': tf.sparse.to_dense(sparse, 9.0),
    'to dense words': tf.sparse.to_dense(names),
    'concat': tf.sparse.concat(1, [sparse, other]),
    'reorder': tf.sparse.reorder(tf.SparseTensor([[1, 0], [0, 1]], [1.0, 2.0], [2, 2])),
    'fill': tf.sparse.fill_empty_rows(names, 'none'),
    'slice': tf.sparse.slice(sparse, [1, 0], [2, 2]),
    'transpose': tf.sparse.transpose(sparse),
    'add': tf.sparse.add(sparse, other),
    'reduce sum': tf.sparse.reduce_sum(sparse, 1),
    'reduce sum of all': tf.sparse.reduce_sum(sparse),
    'reduce max': tf.sparse.reduce_max(sparse, 1, keepdims=True),
    'softmax': tf.sparse.softmax(sparse),
    'matmul': tf.sparse.sparse_dense_matmul(sparse, dense),
    'matmul, adjoint': tf.sparse.sparse_dense_matmul(sparse, dense, adjoint_a=True),
    'gradient of matmul': gradient(lambda x: tf.sparse.sparse_dense_matmul(with_values(x), dense), sparse.values),
    'segment sum': tf.sparse.segment_sum(dense, [0, 2, 1], [0, 0, 1]),
    'segment mean': tf.sparse.segment_mean(dense, [0, 2, 1], [0, 0, 2], num_segments=4),
    'segment sqrt n': tf.sparse.segment_sqrt_n(dense, [0, 2, 1], [0, 0, 1]),
    'cross': tf.sparse.cross_hashed([names, tf.constant([['x'], ['y'], ['z']])], 1000),
    'cross with ids': tf.sparse.cross_hashed([names, ids], 0, hash_key=5),
    'indicator': tf.sparse.to_indicator(ids, 4),
    'bytes': tf.strings.bytes_split(['ab', '', 'c']),
    'ngrams': tf.strings.ngrams(words, [1, 2], separator='|'),
    'padded ngrams': tf.strings.ngrams(words, 3, pad_values=('<', '>')),
    'code points': tf.strings.unicode_decode(['aé', '', '日'], 'UTF-8'),
    'encoded': tf.strings.unicode_encode(tf.strings.unicode_decode(['aé', '', '日'], 'UTF-8'), 'UTF-8'),
    'characters': tf.strings.unicode_split(['aé', '', '日x'], 'UTF-8'),
}
print(json.dumps({name: plain(value) for name, value in values.items()}))
