"""Fits a line to points with TensorFlow 1: one program, started once for every task of the cluster."""
import argparse
import time

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

# 1. Flags
parser = argparse.ArgumentParser()
parser.add_argument('--ps_hosts', default='')
parser.add_argument('--worker_hosts', default='')
parser.add_argument('--job_name', default='worker')
parser.add_argument('--task_index', type=int, default=0)
parser.add_argument('--last_step', type=int, default=50000)
parser.add_argument('--checkpoint_dir', default='./train_logs')
parser.add_argument('--save_secs', type=int, default=600)
FLAGS = parser.parse_args()

# 2. The server of this task
cluster = tf.train.ClusterSpec({'ps': FLAGS.ps_hosts.split(','), 'worker': FLAGS.worker_hosts.split(',')})
server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
if FLAGS.job_name == 'ps':
    server.join()

# 3. Devices: the variables are on the ps, in turn
worker = '/job:worker/task:%d' % FLAGS.task_index
with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=worker)):
    # 4. Points on a line
    x_data = tf.constant([(i * 0.6180339887) % 1 for i in range(100)], tf.float32)
    y_data = x_data * 0.1 + 0.3
    # 5. The model and its loss
    W = tf.Variable(tf.random_uniform([1], -1, 1), name='W')
    b = tf.Variable(tf.zeros([1]), name='b')
    y = W * x_data + b
    loss = tf.reduce_mean(tf.square(y - y_data))
    # 6. The training op
    global_step = tf.train.get_or_create_global_step()
    train_op = tf.train.AdagradOptimizer(0.01).minimize(loss, global_step=global_step)

# 7. A session that restores, saves and recovers
hooks = [tf.train.StopAtStepHook(last_step=FLAGS.last_step)]
shown = 0
with tf.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=FLAGS.task_index == 0,
        checkpoint_dir=FLAGS.checkpoint_dir,
        save_checkpoint_secs=FLAGS.save_secs,
        scaffold=tf.train.Scaffold(saver=tf.train.Saver()),
        hooks=hooks) as sess:
    # 8. The loop
    while not sess.should_stop():
        _, step, loss_now, w, bias = sess.run([train_op, global_step, loss, W, b])
        if time.time() - shown < 1:
            continue
        shown = time.time()
        print('step %d loss %.4g W %s b %s' % (step, loss_now, w, bias), flush=True)
