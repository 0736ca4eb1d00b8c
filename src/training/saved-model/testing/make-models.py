"""Models of Python TensorFlow, each with inputs and what it returns for them."""
import json
import os
import sys

import numpy as np
import tensorflow as tf

root = json.load(sys.stdin)["root"]
cases = []


def plain(value):
    array = np.asarray(value)
    return [x.decode() for x in array.ravel()] if array.dtype.kind in "OS" else array.ravel().tolist()


def note(name, signature, inputs, outputs):
    cases.append({"name": name, "dir": os.path.join(root, name), "signature": signature, "inputs": inputs,
                  "outputs": {k: plain(v) for k, v in outputs.items()}})


def serve(name, inputs, signature="serving_default"):
    """Asks the saved model itself."""
    call = tf.saved_model.load(os.path.join(root, name)).signatures[signature]
    specs = call.structured_input_signature[1]
    out = call(**{k: tf.constant(v, specs[k].dtype) for k, v in inputs.items()})
    note(name, signature, inputs, {k: v.numpy() for k, v in out.items()})


def tf1():
    v1 = tf.compat.v1
    vocabulary = os.path.join(root, "vocabulary.txt")
    with open(vocabulary, "w") as file:
        file.write("apple\npear\nplum\n")
    path = os.path.join(root, "tf1")
    with tf.Graph().as_default(), v1.Session() as session:
        words = v1.placeholder(tf.string, [None], "words")
        table = tf.lookup.StaticVocabularyTable(
            tf.lookup.TextFileInitializer(vocabulary, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE,
                                          tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), 2)
        w = v1.get_variable("w", [5, 3], initializer=v1.random_normal_initializer(seed=1), use_resource=False)
        rows = tf.nn.embedding_lookup(w, table.lookup(words))
        sparse = v1.sparse_placeholder(tf.float32, [None, 3], "sparse")
        product = tf.sparse.sparse_dense_matmul(sparse, tf.transpose(w))
        ragged = v1.ragged.placeholder(tf.float32, 1, [])
        total = tf.reduce_sum(ragged, axis=1)
        doubled = ragged * 2.0
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        sig = v1.saved_model.predict_signature_def
        builder = v1.saved_model.Builder(path)
        builder.add_meta_graph_and_variables(
            session, ["serve"],
            {"words": sig({"words": words}, {"rows": rows}),
             "sparse": sig({"sparse": sparse}, {"product": product}),
             "ragged": sig({"ragged": ragged}, {"total": total, "doubled": doubled})},
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS), main_op=v1.tables_initializer())
        builder.save()
        given = ["pear", "kiwi", "plum"]
        note("tf1", "words", {"words": given}, {"rows": session.run(rows, {words: given})})
        indices, values, shape = [[0, 1], [1, 2]], [2.0, 3.0], [2, 3]
        out = session.run(product, {sparse: v1.SparseTensorValue(indices, values, shape)})
        note("tf1", "sparse", {"sparse": {"indices": indices, "values": values, "denseShape": shape}}, {"product": out})
        rag = v1.ragged.constant_value([[1.0, 2.0], [], [3.5]], dtype=np.float32)
        a, b = session.run([total, doubled], {ragged: rag})
        note("tf1", "ragged", {"ragged": [[1.0, 2.0], [], [3.5]]}, {"total": a, "doubled": b.values})
    os.remove(vocabulary)


def tf1_resources():
    """Resource variables, packed without alignment; one is larger than the windows in which files are read."""
    v1 = tf.compat.v1
    path = os.path.join(root, "tf1_resources")
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [], "x")
        parts = [v1.get_variable(f"v{i}", [size], initializer=v1.random_normal_initializer(seed=i), use_resource=True)
                 for i, size in enumerate([3, 1_300_001, 7, 40_000])]
        steps = v1.get_variable("steps", [], tf.int64, initializer=v1.constant_initializer(5), use_resource=True)
        # Single elements: sums in another order differ by more than 1e-6.
        picked = x * tf.concat([part[::max(1, part.shape[0] // 5)] for part in parts], 0)
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, path, {"x": x}, {"picked": picked, "steps": tf.identity(steps)})
        outputs = dict(zip(("picked", "steps"), session.run([picked, steps], {x: 2.0})))
        note("tf1_resources", "serving_default", {"x": 2.0}, outputs)


class Module(tf.Module):
    def __init__(self):
        self.w = tf.Variable(tf.random.stateless_normal([3, 2], [1, 2]))
        self.table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([10, 20], tf.int64)), -1)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32), tf.TensorSpec([], tf.int32)])
    def power(self, x, n):
        y = x
        for _ in tf.range(n):
            y = y * 2.0
        return {"y": y @ self.w, "n": tf.cast(n, tf.int64)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def find(self, keys):
        return {"found": self.table.lookup(keys)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32), tf.TensorSpec([None], tf.int64)])
    def rows(self, values, splits):
        return {"sums": tf.reduce_sum(tf.RaggedTensor.from_row_splits(values, splits), axis=1)}


def tf2():
    module = Module()
    tf.saved_model.save(module, os.path.join(root, "tf2"),
                        {"power": module.power, "find": module.find, "rows": module.rows})
    serve("tf2", {"x": [[1.0, 2.0, 3.0], [0.5, 0.25, 0.125]], "n": 3}, "power")
    serve("tf2", {"keys": ["b", "zz", "a"]}, "find")
    serve("tf2", {"values": [1.0, 2.0, 4.0], "splits": [0, 2, 2, 3]}, "rows")


def keras():
    layers = tf.keras.layers
    tf.keras.utils.set_random_seed(5)
    sequential = tf.keras.Sequential([tf.keras.Input([4]), layers.Dense(8, "relu"), layers.BatchNormalization(),
                                      layers.Dense(2, "softmax")])
    sequential.export(os.path.join(root, "keras_sequential"), verbose=False)
    x = np.arange(8, dtype=np.float32).reshape(2, 4) / 8
    specs_of = lambda name: tf.saved_model.load(os.path.join(root, name)).signatures[
        "serving_default"].structured_input_signature[1]
    serve("keras_sequential", {list(specs_of("keras_sequential"))[0]: x.tolist()})
    a, b = tf.keras.Input([2], name="a"), tf.keras.Input([3], name="b")
    merged = layers.Concatenate()([layers.Dense(3)(a), b])
    functional = tf.keras.Model([a, b], {"sum": layers.Dense(1)(merged), "all": merged})
    # What `tf.saved_model.save` writes for Keras 3 restores copies of the variables, not those that serve.
    tf.saved_model.save(functional, os.path.join(root, "keras_functional"))
    functional.export(os.path.join(root, "keras_exported"), verbose=False)
    for name in ("keras_functional", "keras_exported"):
        serve(name, {n: [[0.5] * spec.shape[1]] for n, spec in specs_of(name).items()})
    words = tf.keras.Input([3], dtype="string", name="words")
    ids = layers.StringLookup(vocabulary=["cat", "dog", "cow"])(words)
    pooled = layers.GlobalAveragePooling1D()(layers.Embedding(4, 5)(ids))
    embedding = tf.keras.Model(words, layers.Dense(2)(pooled))
    embedding.export(os.path.join(root, "embedding"), verbose=False)
    serve("embedding", {list(specs_of("embedding"))[0]: [["cat", "emu", "dog"], ["cow", "cow", ""]]})


tf1()
tf1_resources()
tf2()
keras()
print(json.dumps(cases))
