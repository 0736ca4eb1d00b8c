"""A REST server of models as a Python user writes it: FastAPI with uvicorn over `tf.saved_model.load`. Prints its port."""

import json
import os
import socket
from pathlib import Path

import tensorflow as tf
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

directory = Path(json.loads(os.environ['BENCH'])['directory'])
loaded = {name: tf.saved_model.load(str(directory / name / '1')) for name in ('softmax', 'embedding')}
signatures = {name: model.signatures['serving_default'] for name, model in loaded.items()}
inputs = {name: next(iter(one.structured_input_signature[1].items())) for name, one in signatures.items()}
app = FastAPI()


class Request(BaseModel):
    instances: list


@app.post('/v1/models/{model}:predict')
def predict(model: str, request: Request):
    name, spec = inputs[model]
    outputs = signatures[model](**{name: tf.constant(request.instances, spec.dtype)})
    return {'predictions': outputs['scores'].numpy().tolist()}


listener = socket.socket()
listener.bind(('127.0.0.1', 0))
print(json.dumps({'rest': listener.getsockname()[1]}), flush=True)
config = uvicorn.Config(app, log_level='error', access_log=False)
uvicorn.Server(config).run(sockets=[listener])
