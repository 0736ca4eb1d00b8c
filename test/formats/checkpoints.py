"""Writes checkpoints with TensorFlow (`write DIR`) or reads them (`read DIR PREFIX...`)."""

import hashlib
import json
import os
import sys

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def described(tensor):
    array = tensor.numpy()
    if tensor.dtype == tf.string:
        values = np.asarray(array, dtype=object).reshape(-1)
        content = [bytes(value).hex() for value in values]
    else:
        content = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return {'dtype': tensor.dtype.as_datatype_enum, 'shape': tensor.shape.as_list(), 'content': content}


def save(prefix, tensors, slices=None):
    names = list(tensors)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=names,
        shape_and_slices=[(slices or {}).get(name, '') for name in names],
        tensors=list(tensors.values()),
    )


def all_dtypes():
    random = np.random.RandomState(7)
    base = tf.constant(random.uniform(-4, 4, [5, 3]))
    tensors = {}
    for dtype in [
        tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16,
        tf.uint32, tf.uint64, tf.bool, tf.complex64, tf.complex128, tf.dtypes.experimental.float8_e5m2,
        tf.dtypes.experimental.float8_e4m3fn, tf.dtypes.experimental.int4, tf.dtypes.experimental.uint4,
    ]:
        source = tf.abs(base) if dtype.is_unsigned or dtype == tf.dtypes.experimental.uint4 else base
        if 'int4' in dtype.name:
            source = tf.cast(source, tf.int32)
        tensors['dtype/' + dtype.name] = tf.cast(source, dtype)
    tensors['int64/extremes'] = tf.constant([-(2**63), 2**63 - 1, 0], tf.int64)
    tensors['scalar'] = tf.constant(3.5)
    tensors['scalar/string'] = tf.constant(b'one')
    tensors['empty'] = tf.zeros([0, 4])
    tensors['empty/string'] = tf.constant([], tf.string, shape=[0])
    tensors['strings'] = tf.constant([[b'', b'a', b'\x00\xff\x00'], [b'x' * 300, 'Zürich'.encode(), b'end']])
    tensors['name with ünïcode/é'] = tf.constant([1.0, 2.0])
    tensors['large'] = tf.constant(random.randint(-(2**31), 2**31 - 1, [2_500_001, 2], np.int32))
    return tensors


def expected(tensors):
    return {name: described(tensor) for name, tensor in tensors.items()}


def write_sharded(root):
    """A tensor in three slices over two shards, and a complete one in each, merged like a sharded Saver."""
    table = tf.reshape(tf.range(60, dtype=tf.float32), [30, 2])
    columns = tf.reshape(tf.range(28, dtype=tf.int64), [4, 7])
    words = tf.constant([b'w%d' % i for i in range(6)])
    parts = [f'{root}/sharded_temp/part-{i}' for i in range(2)]
    tf.raw_ops.SaveV2(
        prefix=parts[0],
        tensor_names=['table', 'table', 'columns', 'words', 'bias'],
        shape_and_slices=['30 2 0,10:0,2', '30 2 20,10:-', '4 7 -:0,3', '6 0,4', ''],
        tensors=[table[:10], table[20:], columns[:, :3], words[:4], tf.constant([0.5, 0.25])],
    )
    tf.raw_ops.SaveV2(
        prefix=parts[1],
        tensor_names=['table', 'columns', 'words', 'step'],
        shape_and_slices=['30 2 10,10:0,2', '4 7 -:3,4', '6 4,2', ''],
        tensors=[table[10:20], columns[:, 3:], words[4:], tf.constant(77, tf.int64)],
    )
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=f'{root}/sharded')
    return {
        'table': table, 'columns': columns, 'words': words, 'bias': tf.constant([0.5, 0.25]),
        'step': tf.constant(77, tf.int64),
    }


def write_saver(root):
    """The checkpoint of a TensorFlow 1 program: partitioned variables, slots, a state file."""
    os.makedirs(f'{root}/saver')
    with tf.Graph().as_default():
        v1.set_random_seed(3)
        partitioner = v1.fixed_size_partitioner(3)
        with v1.variable_scope('model', partitioner=partitioner):
            weights = v1.get_variable('weights', [31, 2], initializer=v1.random_normal_initializer())
        bias = v1.get_variable('bias', [2], initializer=v1.zeros_initializer())
        step = v1.train.get_or_create_global_step()
        ids = tf.constant([0, 1, 30, 12])
        logits = v1.nn.embedding_lookup(weights, ids, partition_strategy='div') + bias
        loss = tf.reduce_mean(v1.nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 1, 1, 0], logits=logits))
        train = v1.train.FtrlOptimizer(0.1).minimize(loss, global_step=step)
        saver = v1.train.Saver(sharded=True, max_to_keep=2)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for _ in range(3):
                session.run(train)
                path = saver.save(session, f'{root}/saver/model.ckpt', global_step=step)
            values = {}
            for variable in v1.global_variables():
                info = variable._get_save_slice_info()
                values.setdefault(info.full_name if info else variable.op.name, []).append(session.run(variable))
    tensors = {name: tf.constant(np.concatenate(parts) if len(parts) > 1 else parts[0]) for name, parts in values.items()}
    return os.path.relpath(path, root), tensors


def write_v1(root):
    """A V1 checkpoint: one table that contains the values."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable('zeros', [400, 400], initializer=v1.zeros_initializer())
        v1.get_variable('noise', [50, 50], initializer=v1.random_normal_initializer(seed=5))
        session.run(v1.global_variables_initializer())
        v1.train.Saver(write_version=v1.train.SaverDef.V1).save(session, f'{root}/old.ckpt')

def write(root):
    result = {}
    tensors = all_dtypes()
    save(f'{root}/dtypes', tensors)
    result['dtypes'] = expected(tensors)
    many = {f'layer_{i // 100:03d}/block_{i % 100:02d}/kernel_{i * 7919 % 1000}': tf.constant([float(i)]) for i in range(12_000)}
    save(f'{root}/many', many)
    few = {name: many[name] for name in list(many)[:: 100]}
    result['many'] = expected(few)
    result['sharded'] = expected(write_sharded(root))
    prefix, tensors = write_saver(root)
    result[prefix] = expected(tensors)
    write_v1(root)
    state = v1.train.get_checkpoint_state(f'{root}/saver')
    odd = v1.train.generate_checkpoint_state_proto(
        f'{root}/odd', f'{root}/odd/it\'s "quoted" \\ ü-1', all_model_checkpoint_paths=[f'{root}/odd/a\tb'],
        all_model_checkpoint_timestamps=[1.5, 1700000000.123456], last_preserved_timestamp=12.25)
    os.makedirs(f'{root}/odd')
    v1.train.update_checkpoint_state(
        f'{root}/odd', odd.model_checkpoint_path, list(odd.all_model_checkpoint_paths),
        all_model_checkpoint_timestamps=list(odd.all_model_checkpoint_timestamps), last_preserved_timestamp=12.25)
    odd = v1.train.get_checkpoint_state(f'{root}/odd')
    result['states'] = {
        'saver': list(state.all_model_checkpoint_paths),
        'odd': [odd.model_checkpoint_path, *odd.all_model_checkpoint_paths],
    }
    print(json.dumps(result))


def read(root, prefixes):
    result = {}
    for prefix in prefixes:
        path = f'{root}/{prefix}'
        reader = tf.train.load_checkpoint(path)
        types = reader.get_variable_to_dtype_map()
        names = sorted(types)
        tensors = tf.raw_ops.RestoreV2(
            prefix=path, tensor_names=names, shape_and_slices=[''] * len(names), dtypes=[types[name] for name in names])
        result[prefix] = {name: described(tensor) for name, tensor in zip(names, tensors)}
        assert reader.get_variable_to_shape_map() == {name: one['shape'] for name, one in result[prefix].items()}
    rows = tf.raw_ops.RestoreV2(
        prefix=f'{root}/ours-sharded', tensor_names=['table'], shape_and_slices=['30 2 5,20:-'], dtypes=[tf.float32])[0]
    state = v1.train.get_checkpoint_state(f'{root}/ours-state')
    print(json.dumps({
        'tensors': result,
        'rows': described(rows),
        'latest': tf.train.latest_checkpoint(root),
        'state': {
            'paths': [state.model_checkpoint_path, *state.all_model_checkpoint_paths],
            'timestamps': [*state.all_model_checkpoint_timestamps, state.last_preserved_timestamp],
        },
    }))


if sys.argv[1] == 'write':
    write(sys.argv[2])
else:
    read(sys.argv[2], sys.argv[3:])
