# One task of the sparse cluster benchmark: the model of scenario 001, trained from TFRecord files.
import tensorflow as tf

from training_task import Task

task = Task()
v1, bench, cluster = tf.compat.v1, task.bench, task.cluster

FEATURES = {
    "label": tf.io.FixedLenFeature([], tf.float32),
    "ids": tf.io.VarLenFeature(tf.int64),
    "values": tf.io.VarLenFeature(tf.float32),
}


def build():
    step = v1.train.get_or_create_global_step()
    dataset = tf.data.TFRecordDataset(bench["files"][task.index], buffer_size=256 << 10)
    dataset = dataset.shuffle(10_000).repeat().batch(bench["batch"], drop_remainder=True)
    dataset = dataset.map(lambda records: tf.io.parse_example(records, FEATURES)).prefetch(2)
    iterator = v1.data.make_initializable_iterator(dataset)
    v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    row = iterator.get_next()
    weights = v1.get_variable("weights", [bench["features"], 2], initializer=v1.zeros_initializer(), use_resource=True,
                              partitioner=v1.fixed_size_partitioner(cluster.num_tasks("ps")))
    bias = v1.get_variable("bias", [2], initializer=v1.zeros_initializer(), use_resource=True)
    logits = v1.nn.embedding_lookup_sparse(weights, row["ids"], row["values"], combiner="sum",
                                           partition_strategy="div") + bias
    loss = v1.losses.sparse_softmax_cross_entropy(tf.cast(row["label"], tf.int64), logits)
    return loss, step, v1.train.FtrlOptimizer(0.01).minimize(loss, global_step=step)


task.train(build)
