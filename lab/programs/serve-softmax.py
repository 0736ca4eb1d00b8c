"""Loads an export of scenario 002 with every loader of unmodified TensorFlow and prints the results."""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import tensorflow as tf

request = json.load(sys.stdin)
path = request["export"]
images = np.fromfile(f"{request['directory']}/heldOut.images", np.float32).reshape(-1, 784)
labels = np.fromfile(f"{request['directory']}/heldOut.labels", np.int32)
few = images[: request["count"]]


def example(image):
    feature = tf.train.Feature(float_list=tf.train.FloatList(value=image))
    return tf.train.Example(features=tf.train.Features(feature={"x": feature})).SerializeToString()


examples = [example(image) for image in few]


def answers(scores, classes, top_scores):
    return {
        "scores": np.asarray(scores).tolist(),
        "classes": [[name.decode() for name in row] for row in np.asarray(classes)],
        "topScores": np.asarray(top_scores).tolist(),
    }


def load():
    signatures = tf.saved_model.load(path).signatures
    predicted = signatures["predict_images"](images=tf.constant(few))
    classified = signatures["serving_default"](inputs=tf.constant(examples))
    found = signatures["predict_images"](images=tf.constant(images))["scores"].numpy().argmax(axis=1)
    return {
        **answers(predicted["scores"], classified["classes"], classified["scores"]),
        "accuracy": float((found == labels).mean()),
    }


def load_v1():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], path)
        predict, classify = meta.signature_def["predict_images"], meta.signature_def["serving_default"]
        scores = session.run(predict.outputs["scores"].name, {predict.inputs["images"].name: few})
        outputs = [classify.outputs["classes"].name, classify.outputs["scores"].name]
        return answers(scores, *session.run(outputs, {classify.inputs["inputs"].name: examples}))


def cli(*args):
    program = "from tensorflow.python.tools.saved_model_cli import main; import sys; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", program, *args], capture_output=True, text=True)
    return {"code": done.returncode, "out": done.stdout, "err": done.stderr[-2000:]}


def cli_run(*args):
    """Returns the output files of `saved_model_cli run`."""
    with tempfile.TemporaryDirectory() as out:
        np.save(os.path.join(out, "images.npy"), few)
        args = [arg.replace("OUT", out) for arg in args]
        done = cli("run", "--dir", path, "--tag_set", "serve", "--outdir", out, *args)
        if done["code"] != 0:
            raise RuntimeError(done["err"])
        return {name: np.load(os.path.join(out, f"{name}.npy"), allow_pickle=True)
                for name in ("scores", "classes") if os.path.exists(os.path.join(out, f"{name}.npy"))}


predicted = cli_run("--signature_def", "predict_images", "--inputs", "images=OUT/images.npy")
given = json.dumps([{"x": [float(pixel) for pixel in image]} for image in few])
classified = cli_run("--signature_def", "serving_default", "--input_examples", f"inputs={given}")
print(json.dumps({
    "tf.saved_model.load": load(),
    "tf.compat.v1.saved_model.load": load_v1(),
    "saved_model_cli run": answers(predicted["scores"], classified["classes"], classified["scores"]),
    "show": cli("show", "--dir", path, "--all"),
}))
