"""SavedModels of TensorFlow give the same in Weir, and Weir's in TensorFlow.

usage: saved_model_interop_test.py SAVED_MODEL_TOOL EMPTY_DIRECTORY
"""
import json
import os
import subprocess
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
import numpy as np
import tensorflow as tf

import cases

v1 = tf.compat.v1
ROWS = [[1.0, 2.0, 3.0], [-1.0, 0.5, 0.25]]


def run(tool, *args):
    return subprocess.run([tool, *args], capture_output=True, text=True)


def predict(tool, directory, inputs, *flags):
    result = run(tool, "predict", directory, "--inputs=" + json.dumps(inputs), *flags)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def export(directory, references, legacy):
    """A model with variables that are not what they began with, and a table that is filled from an asset. Its outputs for ROWS."""
    with tf.Graph().as_default(), v1.Session() as session:
        (v1.disable_resource_variables if references else v1.enable_resource_variables)()
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        with v1.variable_scope("dense"):
            kernel = v1.get_variable("kernel", initializer=np.arange(6, dtype=np.float32).reshape(3, 2))
            bias = v1.get_variable("bias", initializer=np.array([0.5, -0.5], np.float32))
        y = tf.nn.relu(tf.matmul(x, kernel) + bias, name="y")
        vocabulary = directory + ".names"
        with open(vocabulary, "w") as file:
            file.write("left\nright\n")
        names = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                vocabulary, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE
            ),
            "nowhere",
        )
        name = names.lookup(tf.argmax(y, 1))
        train = v1.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(y))
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        session.run(train, {x: ROWS})
        signature = v1.saved_model.predict_signature_def
        signatures = {"serving_default": signature({"x": x}, {"y": y}), "classify": signature({"x": x}, {"name": name, "y": y})}
        builder = v1.saved_model.Builder(directory)
        init = {"legacy_init_op" if legacy else "main_op": v1.tables_initializer()}
        builder.add_meta_graph_and_variables(session, ["serve"], signatures, v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS), **init)
        builder.save(as_text=legacy)
        return session.run([y, name], {x: ROWS})


def test_models_of_tensorflow_give_the_same(tool, directory):
    for references in (False, True):
        for legacy in (False, True):
            model = "%s/%d%d" % (directory, references, legacy)
            y, name = export(model, references, legacy)
            np.testing.assert_allclose(predict(tool, model, {"x": ROWS})["y"], y, rtol=1e-6)
            both = predict(tool, model, {"x": ROWS}, "--signature=classify")
            assert both["name"] == [text.decode() for text in name], both
            np.testing.assert_allclose(both["y"], y, rtol=1e-6)
            inspected = run(tool, "inspect", "model", model)
            assert inspected.returncode == 0, inspected.stderr
            assert "importable: every node fits" in inspected.stdout, inspected.stdout
            assert "signature classify (tensorflow/serving/predict):" in inspected.stdout, inspected.stdout


def test_tensorflow_loads_models_of_weir(tool, directory):
    model = directory + "/model"
    written = run(tool, "write", model)
    assert written.returncode == 0, written.stderr
    ours = predict(tool, model, {"x": ROWS})["y"]
    np.testing.assert_allclose(ours, [[-3.5, 3.25], [-0.75, 1.5625]], rtol=1e-6)
    names = predict(tool, model, {"x": ROWS}, "--signature=classify")["name"]
    assert names == ["right", "right"], names
    with tf.Graph().as_default(), v1.Session() as session:
        loaded = v1.saved_model.load(session, ["serve"], model)
        signature = loaded.signature_def["serving_default"]
        feeds = {signature.inputs["x"].name: ROWS}
        np.testing.assert_allclose(session.run(signature.outputs["y"].name, feeds), ours, rtol=1e-6)
        output = loaded.signature_def["classify"].outputs["name"].name
        assert [text.decode() for text in session.run(output, feeds)] == names
        assert sorted(v.op.name for v in v1.global_variables()) == ["dense/bias", "dense/kernel"]
    loaded = tf.saved_model.load(model)
    values = loaded.signatures["serving_default"](x=tf.constant(ROWS))
    np.testing.assert_allclose(values["y"].numpy(), ours, rtol=1e-6)
    values = loaded.signatures["classify"](x=tf.constant(ROWS))
    assert [text.decode() for text in values["name"].numpy()] == names


def test_models_that_call_functions(tool, directory):
    module = tf.Module()
    module.w = tf.Variable(2.0)
    module.double = tf.function(lambda x: {"y": x * module.w}, input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    model = directory + "/functions"
    tf.saved_model.save(module, model, signatures={"serving_default": module.double})
    result = run(tool, "predict", model, '--inputs={"x": [1]}')
    assert result.returncode == 0 and json.loads(result.stdout) == {"y": [2.0]}, result
    inspected = run(tool, "inspect", "model", model)
    assert inspected.returncode == 0 and "  StatefulPartitionedCall\n" not in inspected.stdout, inspected


def test_mistakes_are_named(tool, directory):
    model = directory + "/model"
    assert run(tool, "write", model).returncode == 0
    for flags, error in (
        (["--tags=train"], "no MetaGraphDef has the tags [train]; there are 1: [serve]"),
        (["--signature=clasify"], "has no signature 'clasify'; did you mean 'classify'?"),
        (['--inputs={"y": [[1, 2, 3]]}'], "has no input 'y'"),
        (["--inputs={}"], "its input 'x' is not given"),
        (['--inputs={"x": [[1, 2]]}'], "input 'x' must be float[?,3], is float[1,2]"),
        (['--inputs={"x": [[1, 2, "3"]]}'], "input 'x': '\"3\"' is no float"),
        (['--inputs={"x": [[1, 2, 3], [1]]}'], "lists of unequal lengths"),
        (["--inputs=[1]"], "must be an object with a value for each input"),
    ):
        result = run(tool, "predict", model, *flags)
        assert result.returncode == 1 and error in result.stderr, (flags, result)
    again = run(tool, "write", model)
    assert again.returncode == 1 and "exists already" in again.stderr, again
    os.remove(model + "/variables/variables.index")
    missing = run(tool, "predict", model, '--inputs={"x": [[1, 2, 3]]}')
    assert missing.returncode == 1 and "variables.index: no such file" in missing.stderr, missing


if __name__ == "__main__":
    sys.exit(cases.run_in_folders(globals()))
