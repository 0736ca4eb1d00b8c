"""Loads exports as unmodified TensorFlow does, and reports what their signatures return."""
import json
import subprocess
import sys

import numpy as np
import tensorflow as tf


def plain(value):
    array = np.asarray(value)
    return [x.decode() for x in array.ravel()] if array.dtype.kind in "OS" else array.ravel().tolist()


def array(value, dtype):
    if dtype == tf.string:
        return np.array([x.encode("latin1") for x in value], dtype=object)
    return np.array(value, dtype=dtype.as_numpy_dtype)


def load_v2(case):
    model = tf.saved_model.load(case["dir"])
    call = model.signatures[case["signature"]]
    specs = call.structured_input_signature[1]
    out = call(**{k: tf.constant(array(v, specs[k].dtype)) for k, v in case["inputs"].items()})
    return {k: plain(v.numpy()) for k, v in out.items()}


def load_v1(case):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta = tf.compat.v1.saved_model.load(session, case.get("tags", ["serve"]), case["dir"])
        signature = meta.signature_def[case["signature"]]
        feeds = {signature.inputs[k].name: array(v, tf.as_dtype(signature.inputs[k].dtype))
                 for k, v in case["inputs"].items()}
        out = session.run({k: v.name for k, v in signature.outputs.items()}, feeds)
        ops = sorted({op.type for op in session.graph.get_operations()})
        devices = sorted({op.device for op in session.graph.get_operations()})
    return {"out": {k: plain(v) for k, v in out.items()}, "ops": ops, "devices": devices}


def cli(case):
    program = "from tensorflow.python.tools.saved_model_cli import main; import sys; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", program, *case["args"]], capture_output=True, text=True)
    return {"code": done.returncode, "out": done.stdout, "err": done.stderr[-2000:]}


results = []
for case in json.load(sys.stdin):
    results.append({"v1": load_v1, "v2": load_v2, "cli": cli}[case["how"]](case))
print(json.dumps(results))
