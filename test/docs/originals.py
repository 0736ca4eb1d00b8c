"""Runs programs of TensorFlow 1 one after another, each as the worker of a cluster whose ps is in this process.

The request is a list of {program, directory, flags, ps, worker}; the response lists what each program printed.
"""
import contextlib
import io
import json
import os
import runpy
import sys

import tensorflow.compat.v1 as tf


def run(program, directory, flags, ps, worker):
    os.makedirs(directory, exist_ok=True)
    os.chdir(directory)
    cluster = tf.train.ClusterSpec({'ps': [ps], 'worker': [worker]})
    server = tf.train.Server(cluster, job_name='ps', task_index=0)
    sys.argv = [program, '--ps_hosts=' + ps, '--worker_hosts=' + worker, '--job_name=worker', '--task_index=0', *flags]
    printed = io.StringIO()
    with tf.Graph().as_default(), contextlib.redirect_stdout(printed):
        runpy.run_path(program, run_name='__main__')
    del server
    return printed.getvalue()


print(json.dumps([run(**one) for one in json.load(sys.stdin)]))
