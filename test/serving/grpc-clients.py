"""Clients of TensorFlow Serving, unchanged: the stubs of tensorflow-serving-api, gRPC's health and reflection.

Makes models in the directory of the first argument, prints "ready", reads the settings of running servers as a line of
JSON, calls them, and prints what it found as a line of JSON. Expected values are of `tf.saved_model.load`.
"""

import json
import os
import sys
import threading
import time

import grpc
import numpy as np
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from google.protobuf.descriptor_pool import DescriptorPool
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2, get_model_metadata_pb2, get_model_status_pb2, inference_pb2, model_management_pb2,
    model_service_pb2_grpc, predict_pb2, prediction_service_pb2_grpc, regression_pb2)

DIRECTORY = sys.argv[1]
NUMBERS = {
    'float32': [1.5, -2], 'float64': [1e300, -0.1], 'float16': [0.5, -3], 'bfloat16': [1, -2], 'int8': [-128, 127],
    'int16': [-32768, 5], 'int32': [-(2**31), 2**31 - 1], 'int64': [-(2**63), 2**63 - 1], 'uint8': [0, 255],
    'uint16': [0, 65535], 'uint32': [0, 2**32 - 1], 'uint64': [0, 2**64 - 1], 'bool': [True, False],
    'complex64': [1 + 2j, -1j], 'complex128': [1e300j, 2],
}


def path(model, version=1):
    return os.path.join(DIRECTORY, model, str(version))


def save(model, function, version=1, **names):
    module = tf.Module()
    module.function = function
    for name, value in names.items():
        setattr(module, name, value)
    tf.saved_model.save(module, path(model, version), signatures=function)


def make_models():
    weights = tf.Variable(tf.random.stateless_normal([784, 10], seed=[1, 2]))

    @tf.function(input_signature=[tf.TensorSpec([None, 784], name='images')])
    def softmax(images):
        return {'scores': tf.nn.softmax(images @ weights), 'classes': tf.argmax(images @ weights, 1)}

    save('softmax', softmax, weights=weights)

    @tf.function(input_signature=[tf.TensorSpec([None], name=name, dtype=name) for name in NUMBERS])
    def echo(*numbers):
        return {f'{name}_out': tf.identity(number) for name, number in zip(NUMBERS, numbers)}

    save('echo', echo)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name='words')])
    def strings(words):
        return {'upper': tf.strings.upper(words), 'length': tf.strings.length(words)}

    save('strings', strings)

    @tf.function(input_signature=[tf.TensorSpec([], tf.int64, name='steps')])
    def slow(steps):
        start = tf.ones([256, 256]) / 256
        return {'sum': tf.reduce_sum(tf.while_loop(
            lambda i, x: i < steps, lambda i, x: (i + 1, x @ x * 256 / 256), [tf.constant(0, tf.int64), start])[1])}

    save('slow', slow)

    for version, factor in ((1, 2.), (2, 3.)):
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            serialized = tf.compat.v1.placeholder(tf.string, [None], name='tf_example')
            parsed = tf.io.parse_example(serialized, {
                'x': tf.io.FixedLenFeature([], tf.float32), 'offset': tf.io.FixedLenFeature([], tf.float32, 0.)})
            y = parsed['x'] / factor + 2 + parsed['offset']
            scores = tf.stack([y, -y], 1)
            labels = tf.tile(tf.constant([['plus', 'minus']]), [tf.shape(y)[0], 1])
            ids = tf.compat.v1.sparse_placeholder(tf.int64, [None, 10], name='ids')
            total = tf.sparse.reduce_sum(ids, axis=1)
            v1 = tf.compat.v1.saved_model
            info = v1.build_tensor_info
            builder = v1.builder.SavedModelBuilder(path('half_plus', version))
            builder.add_meta_graph_and_variables(session, ['serve'], signature_def_map={
                'classify': v1.classification_signature_def(serialized, labels, scores),
                'regress': v1.regression_signature_def(serialized, tf.expand_dims(y, 1)),
                'serving_default': v1.regression_signature_def(serialized, y),
                'sparse': v1.build_signature_def(
                    {'ids': info(ids)}, {'total': info(total)}, 'tensorflow/serving/predict'),
            })
            builder.save()


def outcome(call):
    try:
        call()
        return ['OK', '']
    except grpc.RpcError as error:
        return [error.code().name, error.details()]


def predict_request(model, inputs=None, signature='', version=None, label=None, outputs=()):
    request = predict_pb2.PredictRequest(output_filter=outputs)
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = version
    if label is not None:
        request.model_spec.version_label = label
    for name, value in (inputs or {}).items():
        request.inputs[name].CopyFrom(value if isinstance(value, tensor_pb2.TensorProto) else tf.make_tensor_proto(value))
    return request


def example(**features):
    return tf.train.Example(features=tf.train.Features(feature={
        name: tf.train.Feature(float_list=tf.train.FloatList(value=[value])) for name, value in features.items()}))


def spec(message, model, signature=''):
    message.model_spec.name = model
    message.model_spec.signature_name = signature
    return message


def check_values(stub):
    signature = tf.saved_model.load(path('softmax')).signatures['serving_default']
    images = np.random.default_rng(1).random((1000, 784), np.float32)
    expected = signature(images=tf.constant(images))
    difference = {}
    for rows in (1, 100, 1000):
        as_content = tf.make_tensor_proto(images[:rows])
        as_floats = tf.make_tensor_proto([0.], shape=[rows, 784])
        as_floats.ClearField('tensor_content')
        as_floats.float_val[:] = images[:rows].ravel().tolist()
        for form, proto in (('content', as_content), ('floats', as_floats)):
            answer = stub.Predict(predict_request('softmax', {'images': proto}), timeout=60)
            got = tf.make_ndarray(answer.outputs['scores'])
            difference[f'{rows} {form}'] = float(np.abs(got - expected['scores'][:rows]).max())
            assert (tf.make_ndarray(answer.outputs['classes']) == expected['classes'][:rows].numpy()).all()
    repeated = tensor_pb2.TensorProto(dtype=tf.float32.as_datatype_enum, float_val=[0.25, 0.5])
    repeated.tensor_shape.dim.add(size=1)
    repeated.tensor_shape.dim.add(size=784)
    padded = np.full([1, 784], 0.5, np.float32)
    padded[0, 0] = 0.25
    got = tf.make_ndarray(stub.Predict(predict_request('softmax', {'images': repeated})).outputs['scores'])
    difference['repeated'] = float(np.abs(got - signature(images=tf.constant(padded))['scores']).max())
    return difference


def check_numbers(stub):
    tensors = {name: tf.constant(values, name) for name, values in NUMBERS.items()}
    answer = stub.Predict(predict_request('echo', tensors))
    forms = {'content': answer}
    with_fields = {}
    for name, tensor in tensors.items():
        proto = tensor_pb2.TensorProto()
        # Answers have their values in the typed fields.
        proto.CopyFrom(answer.outputs[f'{name}_out'])
        assert not proto.tensor_content
        with_fields[name] = proto
    forms['fields'] = stub.Predict(predict_request('echo', with_fields))
    return [f'{form} {name}' for form, found in forms.items() for name, tensor in tensors.items()
            if not (tf.make_ndarray(found.outputs[f'{name}_out']) == tensor.numpy()).all()
            or found.outputs[f'{name}_out'].dtype != tensor.dtype.as_datatype_enum]


def check_inference(stub):
    request = spec(classification_pb2.ClassificationRequest(), 'half_plus', 'classify')
    request.input.example_list.examples.extend([example(x=3), example(x=6)])
    classified = stub.Classify(request)
    classes = [[[one.label, one.score] for one in row.classes] for row in classified.result.classifications]
    request = spec(regression_pb2.RegressionRequest(), 'half_plus', 'regress')
    request.input.example_list_with_context.examples.extend([example(x=3), example(x=6)])
    request.input.example_list_with_context.context.CopyFrom(example(offset=10))
    regressed = [row.value for row in stub.Regress(request).result.regressions]
    request = inference_pb2.MultiInferenceRequest()
    for method in ('classify', 'regress'):
        task = spec(request.tasks.add(), 'half_plus', method)
        task.method_name = f'tensorflow/serving/{method}'
    request.input.example_list.examples.append(example(x=3))
    results = stub.MultiInference(request).results
    return {
        'spec': [classified.model_spec.name, classified.model_spec.version.value, classified.model_spec.signature_name],
        'classes': classes, 'regressions': regressed,
        'multi': [results[0].classification_result.classifications[0].classes[0].score,
                  results[1].regression_result.regressions[0].value],
    }


def check_errors(stub, models):
    image = np.zeros([1, 784], np.float32)
    predict = lambda *args, **more: outcome(lambda: stub.Predict(predict_request(*args, **more)))
    broken = tf.make_tensor_proto(image)
    broken.tensor_content = broken.tensor_content[:-1]
    empty = spec(classification_pb2.ClassificationRequest(), 'half_plus', 'classify')
    wrong = spec(regression_pb2.RegressionRequest(), 'half_plus', 'classify')
    wrong.input.example_list.examples.append(example(x=1))
    metadata = lambda *fields: outcome(lambda: stub.GetModelMetadata(
        spec(get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=fields), 'softmax')))
    return {
        'no spec': outcome(lambda: stub.Predict(predict_pb2.PredictRequest())),
        'no name': predict(''),
        'model': predict('nothing', {'images': image}),
        'version': predict('softmax', {'images': image}, version=7),
        'label': predict('softmax', {'images': image}, label='canary'),
        'signature': predict('softmax', {'images': image}, signature='nothing'),
        'input': predict('softmax', {'other': image}),
        'no input': predict('softmax'),
        'output': predict('softmax', {'images': image}, outputs=['nothing']),
        'dtype': predict('softmax', {'images': image.astype(np.float64)}),
        'shape': predict('softmax', {'images': image[:, :3]}),
        'tensor': predict('softmax', {'images': broken}),
        'no examples': outcome(lambda: stub.Classify(empty)),
        'method': outcome(lambda: stub.Regress(wrong)),
        'no metadata field': metadata(),
        'metadata field': metadata('weights'),
        'status': outcome(lambda: models.GetModelStatus(spec(get_model_status_pb2.GetModelStatusRequest(), 'nothing'))),
        'config': outcome(lambda: models.HandleReloadConfigRequest(model_management_pb2.ReloadConfigRequest())),
        'unknown method': outcome(lambda: stub_of(stub)),
    }


def stub_of(stub):
    return CHANNEL.unary_unary('/tensorflow.serving.PredictionService/Nothing')(b'')


def check_deadlines(stub):
    steps = tf.constant(3000, tf.int64)
    started = time.monotonic()
    found = outcome(lambda: stub.Predict(predict_request('slow', {'steps': steps}), timeout=0.2))
    cancelled = stub.Predict.future(predict_request('slow', {'steps': steps}))
    time.sleep(0.3)
    cancelled.cancel()
    quick = outcome(lambda: stub.Predict(predict_request('slow', {'steps': tf.constant(1, tf.int64)}), timeout=30))
    return {'late': found, 'seconds': time.monotonic() - started, 'after': quick}


def check_specs(stub):
    image = {'images': np.zeros([1, 784], np.float32)}
    filtered = stub.Predict(predict_request('softmax', image, outputs=['classes']))
    regress = lambda **choice: list(stub.Predict(predict_request(
        'half_plus', {'inputs': [example(x=6).SerializeToString()]}, **choice)).outputs['outputs'].float_val)
    sparse = stub.Predict(predict_request('half_plus', {
        'ids/indices': tf.constant([[0, 1], [1, 0], [1, 9]], tf.int64), 'ids/values': tf.constant([5, 6, 7], tf.int64),
        'ids/dense_shape': tf.constant([2, 10], tf.int64)}, signature='sparse'))
    words = stub.Predict(predict_request('strings', {'words': [b'abc', b'\xffx', b'']}))
    return {
        'filtered': list(filtered.outputs),
        'versions': {'latest': regress(), 'one': regress(version=1), 'stable': regress(label='stable')},
        'sparse': tf.make_ndarray(sparse.outputs['total']).tolist(),
        'upper': [word.hex() for word in words.outputs['upper'].string_val],
        'length': list(words.outputs['length'].int_val),
    }


def check_management(stub, models):
    status = lambda name: [[one.version, get_model_status_pb2.ModelVersionStatus.State.Name(one.state)]
                           for one in models.GetModelStatus(spec(get_model_status_pb2.GetModelStatusRequest(), name))
                           .model_version_status]
    found = stub.GetModelMetadata(spec(
        get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=['signature_def']), 'softmax'))
    signatures = get_model_metadata_pb2.SignatureDefMap()
    found.metadata['signature_def'].Unpack(signatures)
    before = status('half_plus')
    reload_request = model_management_pb2.ReloadConfigRequest()
    for name in ('softmax', 'half_plus'):
        config = reload_request.config.model_config_list.config.add(
            name=name, base_path=os.path.join(DIRECTORY, name), model_platform='tensorflow')
        config.model_version_policy.specific.versions.append(1)
    models.HandleReloadConfigRequest(reload_request, timeout=60)
    return {'signatures': {name: list(one.inputs) for name, one in signatures.signature_def.items()},
            'before': before, 'after': status('half_plus'),
            'gone': outcome(lambda: stub.Predict(predict_request('strings', {'words': ['a']})))[0]}


def check_standard(channel):
    health = health_pb2_grpc.HealthStub(channel)
    name = lambda answer: health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    check = lambda service: name(health.Check(health_pb2.HealthCheckRequest(service=service)))
    watched = health.Watch(health_pb2.HealthCheckRequest())
    unknown = health.Watch(health_pb2.HealthCheckRequest(service='nothing'))
    database = ProtoReflectionDescriptorDatabase(channel)
    service = DescriptorPool(database).FindServiceByName('tensorflow.serving.PredictionService')
    found = {
        'check': [check(''), check('tensorflow.serving.PredictionService')],
        'unknown': outcome(lambda: check('nothing'))[0],
        'watch': [name(next(watched)), name(next(unknown))],
        'services': sorted(database.get_services()),
        'methods': sorted(method.name for method in service.methods),
        'fields': sorted(field.name for field in service.methods_by_name['Predict'].input_type.fields)[:3],
    }
    watched.cancel()
    unknown.cancel()
    return found


def check_secured(settings):
    credentials = grpc.ssl_channel_credentials(*(open(settings[name], 'rb').read() for name in ('ca', 'key', 'cert')))
    options = [('grpc.ssl_target_name_override', settings['name'])]
    channel = grpc.secure_channel(f"127.0.0.1:{settings['port']}", credentials, options)
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    request = predict_request('strings', {'words': ['a']})
    token = [('authorization', f"Bearer {settings['token']}")]
    anonymous = grpc.secure_channel(f"127.0.0.1:{settings['port']}",
                                    grpc.ssl_channel_credentials(open(settings['ca'], 'rb').read()), options)
    return {
        'token': outcome(lambda: stub.Predict(request, metadata=token))[0],
        'no token': outcome(lambda: stub.Predict(request))[0],
        'other token': outcome(lambda: stub.Predict(request, metadata=[('authorization', 'Bearer no')]))[0],
        'health': outcome(lambda: health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest()))[0],
        'no certificate': outcome(lambda: prediction_service_pb2_grpc.PredictionServiceStub(anonymous).Predict(
            request, metadata=token, timeout=5))[0],
    }


make_models()
print('ready', flush=True)
settings = json.loads(sys.stdin.readline())
CHANNEL = grpc.insecure_channel(f"127.0.0.1:{settings['port']}", options=[('grpc.max_send_message_length', -1)])
prediction = prediction_service_pb2_grpc.PredictionServiceStub(CHANNEL)
management = model_service_pb2_grpc.ModelServiceStub(CHANNEL)
compressed = grpc.insecure_channel(f"127.0.0.1:{settings['port']}", compression=grpc.Compression.Gzip)
results = {
    'values': check_values(prediction),
    'numbers': check_numbers(prediction),
    'specs': check_specs(prediction),
    'inference': check_inference(prediction),
    'errors': check_errors(prediction, management),
    'deadlines': check_deadlines(prediction),
    'standard': check_standard(CHANNEL),
    'gzip': check_specs(prediction_service_pb2_grpc.PredictionServiceStub(compressed))['length'],
    'large': outcome(lambda: prediction.Predict(predict_request('softmax', {
        'images': np.zeros([settings['maxRows'] + 1, 784], np.float32)}))),
    'secured': check_secured(settings['secured']),
    'management': check_management(prediction, management),
}
print(json.dumps(results), flush=True)
