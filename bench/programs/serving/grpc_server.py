"""A gRPC server of models as a Python user writes it: grpcio over `tf.saved_model.load`. Prints its port."""

import json
import os
from concurrent import futures
from pathlib import Path

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

directory = Path(json.loads(os.environ['BENCH'])['directory'])
loaded = {name: tf.saved_model.load(str(directory / name / '1')) for name in ('softmax', 'embedding')}
signatures = {name: model.signatures['serving_default'] for name, model in loaded.items()}


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    def Predict(self, request, context):
        inputs = {name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()}
        response = predict_pb2.PredictResponse(model_spec=request.model_spec)
        for name, value in signatures[request.model_spec.name](**inputs).items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value.numpy()))
        return response


options = [('grpc.max_receive_message_length', -1)]
server = grpc.server(futures.ThreadPoolExecutor(max_workers=8), options=options)
prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(PredictionService(), server)
port = server.add_insecure_port('127.0.0.1:0')
server.start()
print(json.dumps({'grpc': port}), flush=True)
server.wait_for_termination()
