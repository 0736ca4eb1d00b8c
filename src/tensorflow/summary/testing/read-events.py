"""Reads event directories with TensorBoard's own readers and prints what they see in each as JSON."""

import json
import struct
import sys

from tensorboard.backend.event_processing import event_accumulator, plugin_event_multiplexer
from tensorboard.plugins.text import metadata as text_metadata
from tensorboard.util import tensor_util


def image_size(png):
    assert png[:8] == b'\x89PNG\r\n\x1a\n', 'not a PNG'
    return list(struct.unpack('>II', png[16:24]))


def read(directory):
    plain = event_accumulator.EventAccumulator(
        directory, size_guidance={event_accumulator.HISTOGRAMS: 0, event_accumulator.IMAGES: 0})
    plain.Reload()
    tags = plain.Tags()
    runs = plugin_event_multiplexer.EventMultiplexer().AddRun(directory, 'run')
    runs.Reload()
    texts = {}
    for tag in runs.PluginRunToTagToContent(text_metadata.PLUGIN_NAME).get('run', {}):
        texts[tag] = [
            [event.step, [value.decode() for value in tensor_util.make_ndarray(event.tensor_proto).flatten()]]
            for event in runs.Tensors('run', tag)
        ]
    plugins = {name: sorted(runs.PluginRunToTagToContent(name).get('run', {}))
               for name in ('scalars', 'histograms', 'images', 'text')}
    return {
        'scalars': {tag: [[e.step, e.value] for e in plain.Scalars(tag)] for tag in tags['scalars']},
        'histograms': {
            tag: [[e.step, h.min, h.max, h.num, h.sum, sum(h.bucket)]
                  for e in plain.Histograms(tag) for h in [e.histogram_value]]
            for tag in tags['histograms']
        },
        'images': {
            tag: [[e.step, e.width, e.height, image_size(e.encoded_image_string)] for e in plain.Images(tag)]
            for tag in tags['images']
        },
        'texts': texts,
        'plugins': plugins,
        'graphNodes': sorted(node.name for node in plain.Graph().node) if tags['graph'] else [],
        'hasMetaGraph': tags['meta_graph'],
        'runMetadata': tags['run_metadata'],
        'wallTimes': [e.wall_time for tag in tags['scalars'] for e in plain.Scalars(tag)],
    }


print(json.dumps([read(directory) for directory in sys.argv[1:]]))
