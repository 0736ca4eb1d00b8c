"""Writes the models and the requests of the serving benchmark to a directory."""

import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

directory = Path(sys.argv[1])
random = np.random.default_rng(1)


class Softmax(tf.Module):
    def __init__(self):
        self.weights = tf.Variable(tf.random.stateless_normal([784, 10], seed=[1, 2]))

    @tf.function(input_signature=[tf.TensorSpec([None, 784], name='images')])
    def predict(self, images):
        return {'scores': tf.nn.softmax(images @ self.weights)}


class Embedding(tf.Module):
    def __init__(self):
        self.table = tf.Variable(tf.random.stateless_normal([100_000, 32], seed=[3, 4]))
        self.weights = tf.Variable(tf.random.stateless_normal([32, 16], seed=[5, 6]))

    @tf.function(input_signature=[tf.TensorSpec([None, 20], tf.int64, name='ids')])
    def predict(self, ids):
        rows = tf.reduce_mean(tf.nn.embedding_lookup(self.table, ids), axis=1)
        return {'scores': tf.nn.softmax(rows @ self.weights)}


def write_requests(model, name, rows, values):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.inputs[name].CopyFrom(tf.make_tensor_proto(values[:rows]))
    (directory / f'{model}-{rows}.grpc').write_bytes(request.SerializeToString())
    rounded = [[round(value, 4) for value in row] for row in values[:rows].tolist()]
    (directory / f'{model}-{rows}.rest').write_text(json.dumps({'instances': rounded}))


for model, module in (('softmax', Softmax()), ('embedding', Embedding())):
    tf.saved_model.save(module, str(directory / model / '1'), signatures=module.predict)
for rows in (1, 100):
    write_requests('softmax', 'images', rows, random.random((100, 784), np.float32))
write_requests('embedding', 'ids', 1, random.integers(0, 100_000, (1, 20)))
