"""Prints the proto files named as arguments, and all their imports, as one serialized FileDescriptorSet.

The descriptors are read from the bytes literal in the *_pb2.py files of the packages by parsing them, not by
importing TensorFlow (which takes seconds). The first directory of a proto file is its package.
"""

import ast
import functools
import importlib
import importlib.util
import os
import sys

from google.protobuf import descriptor_pb2


PIP_NAMES = {
    'tensorflow_serving': 'tensorflow-serving-api',
    'grpc_health': 'grpcio-health-checking',
    'grpc_reflection': 'grpcio-reflection',
}


@functools.cache
def root_of(package):
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f'this Python has no package {PIP_NAMES.get(package, package)}; the pinned versions are in '
                 'scripts/dev/oracle-requirements.txt')
    return os.path.dirname(list(spec.submodule_search_locations)[0])


def embedded_bytes(path):
    with open(path, encoding='utf-8') as file:
        tree = ast.parse(file.read())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, 'attr', '') == 'AddSerializedFile':
            return ast.literal_eval(node.args[0])
    sys.exit(f'{path} embeds no descriptor')


def load(name):
    module = name.removesuffix('.proto') + '_pb2'
    if name.startswith('google/protobuf/'):
        return importlib.import_module(module.replace('/', '.')).DESCRIPTOR.serialized_pb
    if name.startswith('xla/'):
        module = 'tensorflow/compiler/' + module
    return embedded_bytes(os.path.join(root_of(module.split('/')[0]), module + '.py'))


def main():
    files = {}

    def add(name):
        if name in files:
            return
        descriptor = descriptor_pb2.FileDescriptorProto.FromString(load(name))
        for dependency in descriptor.dependency:
            add(dependency)
        files[name] = descriptor

    for name in sys.argv[1:]:
        add(name)
    result = descriptor_pb2.FileDescriptorSet(file=files.values())
    sys.stdout.buffer.write(result.SerializeToString(deterministic=True))


main()
