"""Asks a server over gRPC for what Python computed: prints how far each answer is off, with the stubs of TensorFlow Serving."""
import json
import sys

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2, prediction_service_pb2_grpc

request = json.load(sys.stdin)
stub = prediction_service_pb2_grpc.PredictionServiceStub(grpc.insecure_channel(f"127.0.0.1:{request['port']}"))


def signature_of(model, name):
    asked = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    asked.model_spec.name = model
    found = get_model_metadata_pb2.SignatureDefMap()
    stub.GetModelMetadata(asked, timeout=60).metadata["signature_def"].Unpack(found)
    return found.signature_def[name]


def tensors_of(name, info, value):
    kind = info.WhichOneof("encoding")
    if kind == "coo_sparse":
        return {f"{name}/indices": tf.constant(value["indices"], tf.int64),
                f"{name}/values": tf.constant(value["values"], info.dtype),
                f"{name}/dense_shape": tf.constant(value["denseShape"], tf.int64)}
    if kind == "composite_tensor":
        ragged = tf.ragged.constant(value, tf.dtypes.as_dtype(info.composite_tensor.components[0].dtype))
        splits = tf.dtypes.as_dtype(info.composite_tensor.components[1].dtype)
        return {f"{name}/values": ragged.flat_values, f"{name}/row_splits_0": tf.cast(ragged.row_splits, splits)}
    return {name: tf.constant(value, info.dtype)}


def difference(proto, expected):
    got = tf.make_ndarray(proto).ravel()
    if got.shape != (len(expected),):
        return float("inf")
    if got.dtype.kind in "OS":
        return 0.0 if [x.decode() for x in got] == expected else float("inf")
    return float(np.abs(got.astype(np.float64) - np.asarray(expected, np.float64)).max(initial=0))


found = []
for case in request["cases"]:
    signature = signature_of(case["name"], case["signature"])
    asked = predict_pb2.PredictRequest()
    asked.model_spec.name = case["name"]
    asked.model_spec.signature_name = case["signature"]
    for name, value in case["inputs"].items():
        for part, tensor in tensors_of(name, signature.inputs[name], value).items():
            asked.inputs[part].CopyFrom(tf.make_tensor_proto(tensor))
    answer = stub.Predict(asked, timeout=60)
    for name, expected in case["outputs"].items():
        proto = answer.outputs[name if name in answer.outputs else f"{name}/values"]
        found.append([f"{case['name']} {case['signature']} {name}", difference(proto, expected)])
print(json.dumps(found))
