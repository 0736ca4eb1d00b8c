"""A model of JSON with the weights of a checkpoint: its predictions."""
import json
import sys

import keras
import numpy as np
import tensorflow as tf

request = json.load(sys.stdin)
model = keras.models.model_from_json(request['json'])
reader = tf.train.load_checkpoint(request['checkpoint'])
for variable in model.weights:
    name = '/'.join(part for part in variable.path.split('/') if not part.endswith('_cell'))
    variable.assign(reader.get_tensor(name))
print(json.dumps({'predicted': model.predict(np.array(request['x'], 'float32'), verbose=0).tolist()}))
