"""A sparse linear classifier on several ps with TensorFlow 1: files through queues, a Supervisor, a sharded Saver."""
import argparse
import json
import time

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

# 1. Flags
parser = argparse.ArgumentParser()
parser.add_argument('--ps_hosts', default='')
parser.add_argument('--worker_hosts', default='')
parser.add_argument('--job_name', default='worker')
parser.add_argument('--task_index', type=int, default=0)
parser.add_argument('--train', default='data/train*.tfrecord')
parser.add_argument('--validate', default='data/valid*.tfrecord')
parser.add_argument('--features', type=int, default=30000000)
parser.add_argument('--batch_size', type=int, default=1000)
parser.add_argument('--epochs', type=int, default=2)
parser.add_argument('--validate_steps', type=int, default=200)
parser.add_argument('--save_model_secs', type=int, default=60)
parser.add_argument('--logdir', default='./supervisor/')
FLAGS = parser.parse_args()

# 2. The server of this task
cluster = tf.train.ClusterSpec({'ps': FLAGS.ps_hosts.split(','), 'worker': FLAGS.worker_hosts.split(',')})
server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
if FLAGS.job_name == 'ps':
    server.join()

# 3. The features of a record
FEATURES = {
    'label': tf.FixedLenFeature([], tf.float32),
    'ids': tf.VarLenFeature(tf.int64),
    'values': tf.VarLenFeature(tf.float32),
}


# 4. The variables
def variables(features, parts):
    weights = tf.get_variable(
        'weights', [features, 2], initializer=tf.zeros_initializer(),
        partitioner=tf.fixed_size_partitioner(parts))
    bias = tf.get_variable('bias', [2], initializer=tf.zeros_initializer())
    return weights, bias


# 5. The classifier
def classify(model, batch):
    weights, bias = model
    logits = tf.nn.embedding_lookup_sparse(
        weights, batch['ids'], batch['values'], partition_strategy='div', combiner='sum') + bias
    labels = tf.cast(batch['label'], tf.int64)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    scores = tf.nn.softmax(logits)
    return labels, loss, scores, tf.argmax(logits, 1)


# 6. Names for serving
def name_for_serving(serialized, scores):
    tf.add_to_collection('inputs', json.dumps({'examples': serialized.name}))
    tf.add_to_collection('outputs', json.dumps({'scores': scores.name}))


# 7. The input: files through queues
def read(pattern, epochs):
    files = tf.train.match_filenames_once(pattern)
    queue = tf.train.string_input_producer(files, num_epochs=epochs)
    _, values = tf.TFRecordReader().read_up_to(queue, 500)
    serialized = tf.train.shuffle_batch(
        [values], FLAGS.batch_size,
        capacity=20 * FLAGS.batch_size,
        min_after_dequeue=5 * FLAGS.batch_size,
        num_threads=4,
        enqueue_many=True,
        shapes=[[]],
        allow_smaller_final_batch=True)
    return serialized, tf.parse_example(serialized, FEATURES)


# 8. The training op
is_chief = FLAGS.task_index == 0
ps_tasks = cluster.num_tasks('ps')
worker = '/job:worker/task:%d' % FLAGS.task_index
with tf.device(tf.train.replica_device_setter(ps_tasks=ps_tasks, worker_device=worker)):
    global_step = tf.train.get_or_create_global_step()
    model = variables(FLAGS.features, ps_tasks)
    serialized, batch = read(FLAGS.train, FLAGS.epochs)
    _, loss, scores, _ = classify(model, batch)
    train_op = tf.train.FtrlOptimizer(0.01).minimize(loss, global_step=global_step)
    tf.summary.scalar('loss', loss)
    name_for_serving(serialized, scores)
    init_op = tf.global_variables_initializer()
    # 9. The metrics of the validation
    _, held = read(FLAGS.validate, None)
    labels, held_loss, held_scores, prediction = classify(model, held)
    with tf.variable_scope('validation'):
        metrics = {
            'loss': tf.metrics.mean(held_loss),
            'accuracy': tf.metrics.accuracy(labels, prediction),
            'auc': tf.metrics.auc(labels, held_scores[:, 1]),
        }
    reset = tf.variables_initializer(tf.get_collection(tf.GraphKeys.METRIC_VARIABLES, scope='validation'))

# 10. A supervisor with a sharded saver
saver = tf.train.Saver(max_to_keep=2, sharded=True)
sv = tf.train.Supervisor(
    is_chief=is_chief,
    logdir=FLAGS.logdir,
    init_op=init_op,
    saver=saver,
    global_step=global_step,
    save_model_secs=FLAGS.save_model_secs,
    save_summaries_secs=10)

# 11. The loop
own = 0
shown = 0
with sv.managed_session(server.target) as session:
    while not sv.should_stop():
        _, step, loss_now = session.run([train_op, global_step, loss])
        own += 1
        if time.time() - shown > 1:
            shown = time.time()
            print('step %d loss %.5g' % (step, loss_now), flush=True)
        # 12. The validation
        if is_chief and own % FLAGS.validate_steps == 0:
            session.run(reset)
            for _ in range(5):
                session.run([update for _, update in metrics.values()])
            found = session.run({name: value for name, (value, _) in metrics.items()})
            text = ', '.join('%s %.4f' % item for item in found.items())
            print('validation at step %d: %s' % (step, text), flush=True)
print('done: %d steps were made here' % own, flush=True)
