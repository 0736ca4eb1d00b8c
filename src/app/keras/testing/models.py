"""Trains the same models in Keras: a list of weights and data on stdin, the values of each epoch on stdout."""
import json
import sys

import keras
import numpy as np
from keras import layers


def dense_model(shape):
    return keras.Sequential([
        keras.Input(shape),
        layers.Dense(16, activation='relu', kernel_regularizer=keras.regularizers.L2(0.01), name='first'),
        layers.BatchNormalization(name='norm'),
        layers.Dense(3, activation='softmax', name='last'),
    ])


def conv_model(shape):
    return keras.Sequential([
        keras.Input(shape),
        layers.Conv2D(4, 3, padding='same', activation='relu', name='first'),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dropout(0.0),
        layers.Dense(3, name='last'),
    ])


def image_model(shape):
    return keras.Sequential([
        keras.Input(shape),
        layers.BatchNormalization(name='norm'),
        layers.GlobalMaxPooling2D(),
        layers.Dense(3, activation='softmax', name='last'),
    ])


def functional_model(shape):
    x = keras.Input(shape)
    shared = layers.Dense(8, activation='tanh', name='shared')
    first = shared(x)
    second = shared(layers.Dense(shape[0], name='first')(x))
    last = layers.Dense(1, activation='sigmoid', name='last')
    return keras.Model(x, last(layers.Concatenate()([first, second])))


def masked_model(shape):
    return keras.Sequential([
        keras.Input(shape),
        layers.Masking(),
        layers.LSTM(4, return_sequences=True, name='first'),
        layers.Dense(3, activation='softmax', name='last'),
    ])


CASES = {
    'masked': (masked_model, 'sparse_categorical_crossentropy', lambda: keras.optimizers.SGD()),
    'dense': (dense_model, 'sparse_categorical_crossentropy', lambda: keras.optimizers.Adam(0.01)),
    'conv': (conv_model, keras.losses.SparseCategoricalCrossentropy(from_logits=True), lambda: keras.optimizers.SGD(0.1, momentum=0.9)),
    'images': (image_model, 'sparse_categorical_crossentropy', lambda: keras.optimizers.SGD()),
    'functional': (functional_model, 'binary_crossentropy', lambda: keras.optimizers.Adam()),
}

def train(request):
    make, loss, optimizer = CASES[request['case']]
    x, y, xv, yv = (np.array(request[key], dtype=kind) for key, kind in
                    [('x', 'float32'), ('y', 'int32'), ('xv', 'float32'), ('yv', 'int32')])
    model = make(x.shape[1:])
    model.compile(optimizer=optimizer(), loss=loss, metrics=['accuracy'])
    for layer in model.layers:
        own = [value for name, value in request['weights'].items() if name.startswith(f'{layer.name}/')]
        layer.set_weights([np.array(value, dtype='float32') for value in own])
    history = model.fit(x, y, epochs=request['epochs'], batch_size=request['batchSize'], shuffle=False,
                        validation_data=(xv, yv), verbose=0)
    return {'history': history.history, 'prediction': model.predict(xv, verbose=0).tolist()}


print(json.dumps([train(request) for request in json.load(sys.stdin)]))
