"""Trains softmax regression on a cluster and exports it for serving with TensorFlow 1."""
import argparse
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '../digits'))
from data import PIXELS, batches, load_digits  # noqa: E402

tf.disable_v2_behavior()
CLASSES = [str(digit) for digit in range(10)]

# 1. Flags
parser = argparse.ArgumentParser()
parser.add_argument('--ps_hosts', default='')
parser.add_argument('--worker_hosts', default='')
parser.add_argument('--job_name', default='worker')
parser.add_argument('--task_index', type=int, default=0)
parser.add_argument('--steps', type=int, default=1000)
parser.add_argument('--export_dir', default='./export')
parser.add_argument('--version', default='1')
parser.add_argument('--exporter', type=int, default=0)
parser.add_argument('--checkpoint_dir', default=None)
FLAGS = parser.parse_args()

# 2. The server of this task
cluster = tf.train.ClusterSpec({'ps': FLAGS.ps_hosts.split(','), 'worker': FLAGS.worker_hosts.split(',')})
server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
if FLAGS.job_name == 'ps':
    server.join()


def softmax_model():
    # 3. The input: serialized examples, or images that are fed in their place
    examples = tf.placeholder(tf.string, [None], name='tf_example')
    parsed = tf.parse_example(examples, {'x': tf.FixedLenFeature([PIXELS], tf.float32)})
    x = tf.identity(parsed['x'], name='x')
    labels = tf.placeholder(tf.float32, [None, len(CLASSES)], name='labels')
    # 4. Softmax regression
    w = tf.Variable(tf.zeros([PIXELS, len(CLASSES)]), name='w')
    b = tf.Variable(tf.zeros([len(CLASSES)]), name='b')
    y = tf.nn.softmax(tf.matmul(x, w) + b)
    # 5. The loss
    loss = -tf.reduce_sum(labels * tf.log(tf.clip_by_value(y, 1e-10, 1)))
    # 6. The signatures for serving
    values, indices = tf.nn.top_k(y, len(CLASSES))
    names = tf.lookup.KeyValueTensorInitializer(tf.range(len(CLASSES), dtype=tf.int64), tf.constant(CLASSES))
    classes = tf.lookup.StaticHashTable(names, 'UNK').lookup(tf.cast(indices, tf.int64))
    signature_def_map = {
        'predict_images': tf.saved_model.predict_signature_def(inputs={'images': x}, outputs={'scores': y}),
        'serving_default': tf.saved_model.classification_signature_def(examples, classes, values),
    }
    return x, labels, y, loss, signature_def_map


# 7. The training op
worker = '/job:worker/task:%d' % FLAGS.task_index
with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=worker)):
    global_step = tf.train.get_or_create_global_step()
    x, labels, y, loss, signature_def_map = softmax_model()
    train_op = tf.train.GradientDescentOptimizer(0.01).minimize(loss, global_step=global_step)
    tables = tf.tables_initializer()

# 8. Digits
train, held_out = load_digits()
one_hot = np.eye(len(CLASSES))

# 9. A session with a saver
with tf.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=FLAGS.task_index == 0,
        checkpoint_dir=FLAGS.checkpoint_dir,
        scaffold=tf.train.Scaffold(saver=tf.train.Saver(max_to_keep=2)),
        hooks=[tf.train.StopAtStepHook(last_step=FLAGS.steps)]) as sess:
    # 10. The loop, with feeds
    for images, digits in batches(train, 100, 1 + FLAGS.task_index):
        if sess.should_stop():
            break
        sess.run(train_op, feed_dict={x: images, labels: one_hot[digits]})
    # 11. The accuracy on held-out digits
    raw = sess._tf_sess()
    scores = raw.run(y, feed_dict={x: held_out[0]})
    accuracy = np.mean(np.argmax(scores, 1) == held_out[1])
    print('accuracy %.4f on %d held-out digits' % (accuracy, len(scores)), flush=True)
    # 12. The export, by one worker
    if FLAGS.task_index == FLAGS.exporter:
        directory = os.path.join(FLAGS.export_dir, FLAGS.version)
        raw.graph._unsafe_unfinalize()
        builder = tf.saved_model.Builder(directory)
        builder.add_meta_graph_and_variables(
            raw, [tf.saved_model.tag_constants.SERVING],
            signature_def_map=signature_def_map,
            legacy_init_op=tables,
            clear_devices=True)
        builder.save()
        print('exported %s' % directory, flush=True)
